"use strict";
// The page of a study: one file that loads nothing. Answers stay in this browser, and leave it as a file.
(() => {
  const { make, button, keys, zoom } = scotoma;
  const page = document.getElementById("page"), status = document.getElementById("saved");
  const state = JSON.parse(document.getElementById("data").textContent);
  const CHOICES = [["yes", "Yes", "Y"], ["no", "No", "N"], ["cant-tell", "Can’t tell", "U"]];
  const GUESS = "Has compression changed how models see this image?";
  const PARTS = { p: "Practice image", m: "Image", g: "Second pass: image" };
  const KEEPS = "Kept in this browser", KEEPS_NOTHING = "This browser keeps nothing: its storage is off or full. Allow it for this file, and open the file again.";
  const answered = {}; // by place, then by question
  let part = "p", index = 0, current = 0, shownAt = 0, since = Date.now(), began = 0, downloaded = false;

  const show = (...children) => { page.replaceChildren(...children); page.focus({ preventScroll: true }); window.scrollTo(0, 0); };
  const placeOf = (number = index, name = part) => `${name}${number}`;
  const tell = (text, warns = false) => { status.className = warns ? "waiting" : ""; status.textContent = text; };

  // --- what is kept: one name an answer, so that two tabs never write over each other -------------
  // All local files share one storage, so names carry study and annotator.
  const prefix = `scotoma-study-${state.study.slice(0, 16)}-${state.annotator}-`, CONSENT = `${prefix}consent`;
  let last = 0;
  const names = () => Object.keys(localStorage).filter((name) => name.startsWith(`${prefix}event-`)).sort();
  const kept = () => names().map((name) => JSON.parse(localStorage.getItem(name)));
  const note = ({ place, question, value }) => { (answered[place] ??= {})[question] = value; };
  function save(question, value) {
    const event = { place: placeOf(), item: state.parts[part][index], question, value, shown_ms: Math.min(Math.round(performance.now() - shownAt), 86400000) };
    last = Math.max(last + 1, Date.now());
    note(event);
    try {
      localStorage.setItem(`${prefix}event-${String(last).padStart(15, "0")}-${crypto.randomUUID()}`, JSON.stringify(event));
      tell(KEEPS);
    } catch { tell(KEEPS_NOTHING, true); }
  }
  async function download() {
    const events = kept(), content = JSON.stringify({ study: state.study, annotator: state.annotator, consent: localStorage.getItem(CONSENT) === "yes", events });
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(content));
    const sha256 = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const file = new Blob([JSON.stringify({ format: "scotoma study answers", version: 1, content, sha256 })], { type: "application/json" });
    const link = make("a", { href: URL.createObjectURL(file), download: `answers-${state.study.slice(0, 8)}-${state.annotator}.json` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    downloaded = true;
    tell(`${events.length} answers downloaded`);
    document.getElementById("clear")?.removeAttribute("disabled");
  }
  function clear() {
    for (const name of [...names(), CONSENT]) localStorage.removeItem(name);
    tell("Answers deleted from this browser");
    document.getElementById("clear").disabled = true;
  }
  document.getElementById("download").addEventListener("click", download);

  // --- an image ----------------------------------------------------------------------------------
  const answers = () => answered[placeOf()] ?? {};
  const asked = (name = part) => (name === "g" ? [{ key: "guess", text: GUESS }] : state.questions);
  const complete = (number = index, name = part) => {
    const own = answered[placeOf(number, name)] ?? {};
    return own.skip === "yes" || asked(name).every(({ key }) => own[key]);
  };
  function item() {
    const id = state.parts[part][index], labels = state.labels[id], shown = `${PARTS[part]} ${index + 1} of ${state.parts[part].length}`;
    document.getElementById("progress").textContent = shown;
    const picture = make("img", { src: `data:image/png;base64,${state.images[id]}`, width: 256, height: 256, alt: "The image to be judged. Its content is not described here, because describing it would answer the questions." });
    picture.addEventListener("load", () => requestAnimationFrame(() => { shownAt = performance.now(); }), { once: true });
    const own = answers();
    current = Math.max(0, asked().findIndex(({ key }) => !own[key]));
    const questions = asked().map(({ key, text }, number) =>
      make("fieldset", { "data-question": number },
        make("legend", {}, make("b", {}, `${number + 1}. `), text),
        make("div", { class: "choices" }, ...CHOICES.map(([value, title, letter]) =>
          button(title, letter, () => { current = number; answer(value); }, { "data-value": value, "aria-pressed": String(own[key] === value), "aria-label": `${title}: question ${number + 1}` })))));
    const comment = make("textarea", { id: "comment", rows: 1, maxlength: state.longest_comment });
    comment.value = own.comment ?? "";
    comment.addEventListener("change", () => save("comment", comment.value.replace(/\s+/g, " ")));
    show(
      make("h1", {}, shown),
      make("div", { class: "item" },
        make("div", { class: "look" }, picture,
          make("ol", { class: "labels" }, ...labels.map((label, number) => make("li", {}, `Label ${number + 1}: `, make("b", {}, make("bdi", {}, label))))),
          make("div", { class: "row" }, button("Zoom", "Z", zoom, { id: "zoom", "aria-pressed": "false" }), part === "g" ? null : button("Skip: I do not want to look", "S", skip, { id: "skip" }))),
        make("div", {}, ...questions,
          ...(part === "g" ? [] : [make("p", {}, make("label", { for: "comment" }, "Comment (optional)")), comment]),
          make("p", { id: "feedback", class: "hint", "aria-live": "polite" }),
          make("div", { class: "row" }, button("Back", "⌫", back, { id: "back", disabled: before() === null }), button("Next image", "Enter", forward, { id: "next", class: "main" })))));
    mark();
  }
  // What the answers say, read back, so that who practises sees what yes and no mean.
  function readBack() {
    const own = answers(), said = state.questions.filter(({ key }) => ["yes", "no"].includes(own[key]));
    if (!said.length) return "You could not tell anything about this image.";
    const odd = own.q1 === "no" && own.q4 === "yes" ? " But how can the object be typical of a label that names none?" : "";
    return `You said: ${said.map((one) => one[own[one.key]]).join("; ")}.${odd} If you meant something else, change it; you may do so in the study, too.`;
  }
  function mark() {
    for (const set of page.querySelectorAll("fieldset")) set.toggleAttribute("data-current", Number(set.dataset.question) === current);
    document.getElementById("next").disabled = !complete();
    const left = asked().filter(({ key }) => !answers()[key]).length;
    document.getElementById("feedback").textContent = answers().skip === "yes" ? "Skipped. Enter goes on." : left ? `${left} of ${asked().length} questions left.` : part === "p" ? readBack() : "All answered.";
  }
  function answer(value) {
    const { key } = asked()[current];
    if (answers().skip === "yes") save("skip", "no");
    save(key, value);
    for (const one of page.querySelectorAll(`fieldset[data-question="${current}"] button`)) one.setAttribute("aria-pressed", String(one.dataset.value === value));
    const open = asked().findIndex(({ key: other }, number) => number > current && !answers()[other]);
    if (open >= 0) current = open;
    mark();
    page.querySelector("fieldset[data-current]")?.scrollIntoView({ block: "nearest" });
  }
  function skip() { save("skip", "yes"); mark(); forward(); }
  function forward() {
    if (!complete()) return;
    index += 1;
    if (index < state.parts[part].length) {
      if (Date.now() - since > state.pause_minutes * 60000) return pause();
      return item();
    }
    if (part === "p" && state.parts.m.length) { [part, index] = ["m", 0]; return start(); }
    if (part !== "g" && state.parts.g.length) { [part, index] = ["g", 0]; return second(); }
    end();
  }
  // The part and number of the image before this one; null for none.
  function before() {
    if (index > 0) return [part, index - 1];
    const filled = ["p", "m", "g"].filter((name) => state.parts[name].length);
    const name = filled[filled.indexOf(part) - 1];
    return name ? [name, state.parts[name].length - 1] : null;
  }
  function back() {
    const found = before();
    if (found) { [part, index] = found; item(); }
  }

  // --- pages between -----------------------------------------------------------------------------
  const go = (text, action) => button(text, "Enter", action, { class: "main", id: "next" });
  function start() {
    const practised = state.parts.p.length, spent = began ? (Date.now() - began) / 60000 : 0;
    const pace = practised && spent ? Math.max(0.2, spent / practised) : 0.3;
    show(make("h1", {}, "Ready"), make("p", {}, `${state.parts.m.length} images, about ${Math.max(1, Math.round(pace * state.parts.m.length))} minutes at your pace. Answers are kept in this browser: you may close this page and go on later, here.`), make("div", { class: "row" }, go("Start", item)));
  }
  function second() { show(make("h1", {}, "A second pass"), make("p", {}, `All questions are answered. Now ${state.parts.g.length} of these images once more, with one question each: do you think that compression has changed how models see it? Guess freely.`), make("div", { class: "row" }, go("Start", item))); }
  function pause() { show(make("h1", {}, "Time for a pause"), make("p", {}, `You have judged images for ${state.pause_minutes} minutes. Rest your eyes; everything is kept.`), make("div", { class: "row" }, go("Go on", () => { since = Date.now(); item(); }))); }
  function end() {
    document.getElementById("progress").textContent = "Done";
    show(make("h1", {}, "Thank you"), make("p", {}, "All images are judged. Download your answers and send the file to the person who asked you. Once they have it, delete the answers from this browser."),
      make("div", { class: "row" }, button("Download answers", "Enter", download, { class: "main", id: "next" }), button("Delete them from this browser", "", clear, { id: "clear", disabled: !downloaded })));
  }
  function consent() {
    const { contact, purpose, keep, faces } = state.consent;
    show(make("h1", {}, "Before you begin"),
      make("dl", {}, ...[["Who asks", contact], ["Why", purpose], ["What is stored", "Your answers and how long each took; no address, no browser, no name."], ["Where", "In this browser until you delete them there, where other pages opened from files on this computer can read them. Nothing is sent: you download a file and send it yourself."], ["How long", keep], ...(faces ? [["Faces", `Images may show faces. Legal basis: ${faces}`]] : []), ["Your right", "You may stop at any time, and have your answers deleted by the person who asks."], ["Content", "Images come from public or supplied collections and were not checked one by one. Skip any that you do not want to look at."]].map(([term, text]) => make("div", {}, make("dt", {}, term), make("dd", {}, text)))),
      make("div", { class: "row" }, button("I agree, begin", "Enter", agree, { class: "main", id: "next" })));
  }
  function agree() {
    try { localStorage.setItem(CONSENT, "yes"); } catch { return useless(); }
    begin();
  }
  const useless = () => show(make("h1", {}, "This file cannot be answered here"), make("p", {}, KEEPS_NOTHING));
  function begin() {
    tell(KEEPS);
    document.getElementById("download").hidden = false;
    for (const name of ["p", "m", "g"]) {
      const open = state.parts[name].findIndex((_, number) => !complete(number, name));
      if (open >= 0) {
        [part, index] = [name, open];
        if (name === "p" && open === 0) began = Date.now();
        if (open > 0 || name === "p") return item();
        return name === "m" ? start() : second();
      }
    }
    end();
  }

  keys({
    enter() {
      const next = document.getElementById("next");
      if (!next || next.disabled) return false;
      next.click();
      return true;
    },
    back() {
      if (!page.querySelector(".item")) return false;
      back();
      return true;
    },
    letter(key) {
      if (!page.querySelector(".item")) return false;
      const choice = CHOICES.find(([, , letter]) => letter.toLowerCase() === key);
      if (choice) answer(choice[0]);
      else if (key === "z") zoom();
      else if (key === "s" && part !== "g") skip();
      else if (/^[1-6]$/.test(key) && Number(key) <= asked().length) { current = Number(key) - 1; mark(); }
      else return false;
      return true;
    },
  });

  try {
    kept().forEach(note);
    if (localStorage.getItem(CONSENT) === "yes") begin();
    else consent();
  } catch { useless(); }
})();
