// Bundles entry.js and gathers the licence of every package that is in the bundle.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const { metafile } = await build({
  entryPoints: ["entry.js"],
  outfile: "vega.js",
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "vega",
  target: "es2020",
  charset: "ascii",
  legalComments: "none",
  banner: { js: "/* Vega and what it needs; licences: LICENSES.md beside this file. */" },
  metafile: true,
});

const [{ inputs }] = Object.values(metafile.outputs);
const used = Object.entries(inputs).filter(([, input]) => input.bytesInOutput > 0);
const names = new Set(
  used.map(([path]) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]).filter(Boolean),
);

const sections = [...names].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((found) => /^licen[sc]e/i.test(found));
  const text = file ? readFileSync(`${folder}/${file}`, "utf8").trim() : `Licence: ${license}`;
  return `## ${name} ${version}\n\n\`\`\`text\n${text}\n\`\`\`\n`;
});
const head = "# What vega.js holds, and under which licences\n\nWritten by build.sh.\n";
writeFileSync("LICENSES.md", [head, ...sections].join("\n"));
