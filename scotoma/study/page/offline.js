"use strict";
// Where answers go without a server: into this browser, and from there into a file.
const offline = (() => {
  const bundle = JSON.parse(document.getElementById("bundle").textContent);
  const { state, images, consent: texts } = bundle;
  // All local files share one storage, so names carry study, annotator and part.
  const name = `scotoma-study-${state.study}-${state.annotator}-${bundle.part}`;
  const kept = scotoma.records(`${name}-event-`);
  const bytes = (text) => new TextEncoder().encode(text);
  const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  let downloaded = false;

  async function download() {
    const events = kept.all();
    const content = JSON.stringify({ study: bundle.sha256, annotator: state.annotator, part: bundle.part, parts: bundle.parts, consent: localStorage.getItem(`${name}-consent`) === "yes", events });
    const raw = Uint8Array.from(bundle.key.match(/../g), (pair) => parseInt(pair, 16));
    const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    const stamp = hex(await crypto.subtle.sign("HMAC", key, bytes(content)));
    const file = new Blob([JSON.stringify({ format: "scotoma study answers", version: 1, content, stamp })], { type: "application/json" });
    const link = scotoma.make("a", { href: URL.createObjectURL(file), download: `answers-${state.study.slice(0, 8)}-${state.annotator}-${bundle.part}.json` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    downloaded = true;
    document.getElementById("saved").textContent = `${events.length} answers downloaded`;
    const clear = document.getElementById("clear");
    if (clear) clear.disabled = false;
  }
  function clear() {
    for (const one of ["event-", "queue-"]) scotoma.records(`${name}-${one}`).clear();
    localStorage.removeItem(`${name}-consent`);
    document.getElementById("saved").textContent = "Answers deleted from this browser";
    document.getElementById("clear").disabled = true;
  }
  document.getElementById("download").addEventListener("click", download);
  return {
    note: "In this browser until you delete them there, where other pages opened from files on this computer can read them. Nothing is sent: you download a file and send it yourself.",
    failure: ["This browser keeps nothing", "Its storage is off or full. Allow it for this file, and open the file again."],
    saved: "Kept in this browser",
    resuming: "Answers are kept in this browser: you may close this page and go on later, here.",
    image: (id) => `data:image/png;base64,${images[id]}`,
    ending: (make, button) => [
      make("p", {}, "Download your answers and send the file to the person who asked you. Once they have it, delete the answers from this browser."),
      make("div", { class: "row" }, button("Download answers", "Enter", download, { class: "main", id: "next" }), button("Delete them from this browser", "", clear, { id: "clear", disabled: !downloaded })),
    ],
    async save(event) {
      kept.add(event);
      return "saved";
    },
    async open({ begin, consent }) {
      const enter = () => {
        localStorage.setItem(`${name}-consent`, "yes");
        const answers = {};
        for (const { place, question, value } of kept.all()) (answers[place] ??= {})[question] = value;
        begin({ ...state, annotator: `${state.annotator}-${bundle.part}`, answers });
      };
      if (localStorage.getItem(`${name}-consent`) === "yes") enter();
      else consent(texts, enter);
    },
  };
})();
