"use strict";
// The page of a study. Answers go to a server, or in a single file to `offline`.
(() => {
  const { make, button, keys, post, records, zoom } = scotoma;
  const page = document.getElementById("page");
  const CHOICES = [["yes", "Yes", "Y"], ["no", "No", "N"], ["cant-tell", "Can’t tell", "U"]];
  const GUESS = "Has compression changed how models see this image?";
  const PARTS = { p: "Practice image", m: "Image", g: "Second pass: image" };
  let state, part = "p", index = 0, current = 0, shownAt = 0, since = Date.now(), began = 0;

  const show = (...children) => { page.replaceChildren(...children); page.focus({ preventScroll: true }); window.scrollTo(0, 0); };
  const message = (title, text) => show(make("h1", {}, title), make("p", {}, text));
  const hex = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  // Places are counted over the whole study; a file may hold some of them.
  const placeOf = (number, name = part) => `${name}${state.first[name] + number}`;

  // --- saving: an answer waits here until it is known to be kept --------------------------------
  let queue;
  let sending = false;
  let refused = 0, why = "";
  const tell = () => {
    const line = document.getElementById("saved"), waiting = queue.all().length;
    const texts = [refused ? `${refused} refused (${why}): tell the person who asked you` : "", waiting ? `${waiting} not saved yet` : ""].filter(Boolean);
    line.className = texts.length ? "waiting" : "";
    line.textContent = texts.join("; ") || answered.saved;
  };
  async function send() {
    if (sending) return;
    sending = true;
    let again = 0;
    for (let [event] = queue.all(); event; [event] = queue.all()) {
      const outcome = await answered.save(event).catch(() => "later");
      if (outcome === "later") { again = 2000; break; }
      if (outcome === "closed") { message("Please open your link again", "Your session has ended. Answers that are not saved yet wait in this browser."); break; }
      if (outcome !== "saved") { refused += 1; why = outcome.refused; }
      queue.remove(event);
      tell();
    }
    sending = false;
    if (again) setTimeout(send, again);
  }
  function save(question, value) {
    (state.answers[placeOf(index)] ??= {})[question] = value;
    queue.add({ key: hex(), place: placeOf(index), item: state.parts[part][index], question, value, shown_ms: Math.min(Math.round(performance.now() - shownAt), 86400000) });
    tell();
    send();
  }

  // --- an image ----------------------------------------------------------------------------------
  const answers = () => state.answers[placeOf(index)] ?? {};
  const asked = (name = part) => (name === "g" ? [{ key: "guess", text: GUESS }] : state.questions);
  const complete = (number = index, name = part) => {
    const own = state.answers[placeOf(number, name)] ?? {};
    return own.skip === "yes" || asked(name).every(({ key }) => own[key]);
  };
  function item() {
    const id = state.parts[part][index], labels = state.labels[id], shown = `${PARTS[part]} ${state.first[part] + index + 1} of ${state.total[part]}`;
    document.getElementById("progress").textContent = shown;
    const picture = make("img", { src: answered.image(id), width: 256, height: 256, alt: "The image to be judged. Its content is not described here, because describing it would answer the questions." });
    picture.addEventListener("load", () => requestAnimationFrame(() => { shownAt = performance.now(); }), { once: true });
    const next = state.parts[part][index + 1];
    if (next) new Image().src = answered.image(next);
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
    show(make("h1", {}, "Ready"), make("p", {}, `${state.parts.m.length} images, about ${Math.max(1, Math.round(pace * state.parts.m.length))} minutes at your pace. ${answered.resuming}`), make("div", { class: "row" }, go("Start", item)));
  }
  function second() { show(make("h1", {}, "A second pass"), make("p", {}, `All questions are answered. Now ${state.parts.g.length} of these images once more, with one question each: do you think that compression has changed how models see it? Guess freely.`), make("div", { class: "row" }, go("Start", item))); }
  function pause() { show(make("h1", {}, "Time for a pause"), make("p", {}, `You have judged images for ${state.pause_minutes} minutes. Rest your eyes; everything is saved.`), make("div", { class: "row" }, go("Go on", () => { since = Date.now(); item(); }))); }
  function end() {
    document.getElementById("progress").textContent = "Done";
    show(make("h1", {}, "Thank you"), make("p", {}, "All images are judged."), ...answered.ending(make, button));
  }
  function consent(texts, agree) {
    show(make("h1", {}, "Before you begin"),
      make("dl", {}, ...[["Who asks", texts.contact], ["Why", texts.purpose], ["What is stored", "Your answers and how long each took; no address, no browser, no name."], ...(answered.note ? [["Where", answered.note]] : []), ["How long", texts.keep], ...(texts.faces ? [["Faces", `Images may show faces. Legal basis: ${texts.faces}`]] : []), ["Your right", "You may stop at any time, and have your answers deleted by the person who asks."], ["Content", "Images come from public or supplied collections and were not checked one by one. Skip any that you do not want to look at."]].map(([term, text]) => make("div", {}, make("dt", {}, term), make("dd", {}, text)))),
      make("div", { class: "row" }, button("I agree, begin", "Enter", agree, { class: "main", id: "next" })));
  }
  function begin(found) {
    state = found;
    queue = records(`scotoma-study-${state.study}-${state.annotator}-queue-`);
    for (const { place, question, value } of queue.all()) (state.answers[place] ??= {})[question] = value;
    tell();
    send();
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

  // --- where answers go ---------------------------------------------------------------------------
  const online = {
    note: "",
    failure: ["The server does not answer", "Check the connection and load this page again."],
    saved: "All answers saved",
    resuming: "Answers are saved as you give them: you may stop at any time and go on later, on another device too.",
    image: (id) => `image/${id}`,
    ending: () => [make("p", {}, "You may close this page once all answers are saved, as it says above.")],
    async save(event) {
      const reply = await post("answer", event);
      if (reply.ok) return "saved";
      if (reply.status === 401) return "closed";
      return reply.status === 400 ? { refused: (await reply.json()).error } : "later";
    },
    async open() {
      const token = location.hash.slice(1);
      if (token) history.replaceState(null, "", location.pathname);
      const reply = await fetch("state", { credentials: "same-origin" });
      if (reply.ok && !token) return begin(await reply.json());
      const enter = async () => {
        const entered = await post("session", { token, consent: true });
        if (entered.ok) begin(await (await fetch("state", { credentials: "same-origin" })).json());
      };
      const invited = token ? await post("invitation", { token }) : null;
      if (!invited?.ok) return message("Please open your link", "This page needs the link that you were sent. It may have expired or been withdrawn: ask the person who sent it.");
      const found = await invited.json();
      return found.consented ? enter() : consent(found.consent, enter);
    },
  };
  const answered = typeof offline === "undefined" ? online : offline;
  answered.open({ begin, consent }).catch(() => message(...answered.failure));
})();
