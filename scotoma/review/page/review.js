"use strict";
// The page of a review: filters above, one example below, a verdict by one key.
(() => {
  const { make, button, keys, zoom } = scotoma;
  const post = (path, content) => fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(content), credentials: "same-origin" });
  const card = document.getElementById("card");
  const VERDICTS = [["model wrong", "Model wrong", "M"], ["label wrong", "Label wrong", "L"], ["ambiguous", "Ambiguous", "A"], ["ignore", "Ignore", "I"]];
  const WHAT = { became_wrong: "Became wrong", became_right: "Became right", wrong_either_way: "Wrong either way", unchanged: "Unchanged", no_label: "Changed" };
  let state, list = [], place = 0;
  const chosen = { kind: "changed", direction: "", label: "", group: "", review: "", order: "most" };

  const name = (text) => make("bdi", {}, text);

  function filters() {
    const values = (get) => [...new Set(state.cards.flatMap(get))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const groups = values((one) => Object.entries(one.attributes).map(([attribute, value]) => `${attribute}=${value}`));
    const select = (key, title, options) => {
      const box = make("select", { onchange: (event) => { chosen[key] = event.target.value; apply(); } }, ...options.map(([value, text]) => make("option", { value }, text)));
      box.value = chosen[key];
      return make("label", {}, `${title} `, box);
    };
    const all = (options) => [["", "all"], ...options];
    document.getElementById("filters").replaceChildren(
      select("kind", "Examples", [["changed", "changed"], ["unchanged", "unchanged (random sample)"]]),
      select("order", "Order", [["most", "most changed first"], ["random", "random"]]),
      select("direction", "Direction", all(Object.entries(WHAT).filter(([key]) => key !== "unchanged" && state.cards.some((one) => one.direction === key)))),
      ...(state.about.labelled ? [select("label", "Label", all(values((one) => [one.label]).map((label) => [label, label])))] : []),
      ...(groups.length ? [select("group", "Group", all(groups.map((group) => [group, group])))] : []),
      select("review", "Verdict", all([["none", "not reviewed"], ...VERDICTS.map(([value, title]) => [value, title.toLowerCase()])])));
  }
  function apply() {
    const fits = (one) => one.kind === chosen.kind
      && (!chosen.direction || one.direction === chosen.direction)
      && (!chosen.label || one.label === chosen.label)
      && (!chosen.group || Object.entries(one.attributes).some(([attribute, value]) => `${attribute}=${value}` === chosen.group))
      && (!chosen.review || (chosen.review === "none" ? !one.review : one.review?.verdict === chosen.review));
    const random = chosen.order === "random" || chosen.kind === "unchanged";
    list = state.cards.filter(fits).sort((a, b) => (random ? a.lot - b.lot : a.rank - b.rank));
    place = Math.max(0, list.findIndex((one) => !one.review));
    show();
  }
  function counts() {
    const done = state.cards.filter((one) => one.review && one.review.verdict !== "ignore");
    const of = (kind) => done.filter((one) => one.kind === kind).length;
    document.getElementById("counts").textContent = `Reviewed: ${of("changed")} of ${state.about.changed} changed and ${of("unchanged")} of ${state.about.unchanged} unchanged examples of ${state.about.variant}.`;
    document.getElementById("progress").textContent = list.length ? `Example ${place + 1} of ${list.length}` : "No example";
  }
  function show() {
    counts();
    const one = list[place];
    if (!one) { card.replaceChildren(make("p", {}, "No example fits these filters.")); return; }
    const facts = [["Example", one.example_id], ...(one.label === null ? [] : [["Label", one.label]]), ["Dense models say", `${one.dense_modal} (${one.dense_votes} of ${state.about.dense_members})`], [`${state.about.variant} says`, `${one.compressed_modal} (${one.compressed_votes} of ${state.about.compressed_members})`], ...Object.entries(one.attributes)];
    const look = one.pictured ? make("div", { class: "look" }, make("img", { src: `image/${one.place}`, width: 256, height: 256, alt: `Example ${one.example_id}` }), make("div", { class: "row" }, button("Zoom", "Z", zoom, { id: "zoom", "aria-pressed": "false" })))
      : make("div", { class: "texts" }, ...one.texts.flatMap(([title, text]) => [make("h2", {}, name(title)), make("pre", {}, text)]), ...(one.texts.length ? [] : [make("p", { class: "hint" }, "No image and no text: judge by the values.")]));
    const right = make("select", { id: "right", onchange: () => { if (document.getElementById("right").value) verdict("label wrong"); } }, make("option", { value: "" }, "choose"), ...state.about.classes.map((label) => make("option", { value: label }, label)));
    right.value = one.review?.label ?? "";
    const comment = make("textarea", { id: "comment", rows: 1, maxlength: 500 });
    comment.value = one.review?.comment ?? "";
    card.replaceChildren(make("div", { class: "item" }, look,
      make("div", {}, make("h2", {}, WHAT[one.direction]),
        make("dl", {}, ...facts.map(([term, value]) => make("div", {}, make("dt", {}, name(term)), make("dd", {}, name(String(value)))))),
        make("div", { class: "choices", role: "group", "aria-label": "Verdict" }, ...VERDICTS.map(([value, title, key]) => button(title, key, () => (value === "label wrong" ? right.focus() : verdict(value)), { "aria-pressed": String(one.review?.verdict === value), disabled: !state.about.labelled && value !== "ambiguous" && value !== "ignore" && value !== "label wrong" }))),
        make("p", {}, make("label", { for: "right" }, state.about.labelled ? "Right class, if the label is wrong " : "Right class "), right),
        make("p", {}, make("label", { for: "comment" }, "Comment, kept with the verdict (optional)")), comment,
        make("p", { class: "hint" }, one.review ? `Reviewed by ${one.review.by}.` : ""),
        make("div", { class: "row" }, button("Back", "⌫", () => go(-1), { disabled: place === 0 }), button("Next", "Enter", () => go(1), { class: "main", id: "next", disabled: place + 1 >= list.length })))));
    const after = list[place + 1];
    if (after?.pictured) new Image().src = `image/${after.place}`;
  }
  async function verdict(value) {
    const one = list[place], line = document.getElementById("saved");
    const review = { verdict: value, label: value === "label wrong" ? document.getElementById("right").value : "", comment: document.getElementById("comment").value.replace(/\s+/g, " ") };
    if (value === "label wrong" && !review.label) { document.getElementById("right").focus(); return; }
    line.className = "waiting";
    line.textContent = "Saving…";
    const reply = await post("verdict", { place: one.place, ...review }).catch(() => null);
    if (!reply?.ok) { line.textContent = reply ? (await reply.json()).error : "Not saved: the server does not answer"; return; }
    line.className = "";
    line.textContent = "Saved";
    one.review = { ...review, by: state.about.reviewer };
    if (place + 1 < list.length) go(1); else show();
  }
  function go(step) {
    if (place + step < 0 || place + step >= list.length) return;
    place += step;
    show();
    document.getElementById("page").focus({ preventScroll: true });
  }
  keys({
    enter: () => (go(1), false),
    back: () => (go(-1), true),
    letter(key) {
      if (key === "z") { zoom(); return true; }
      const found = VERDICTS.findIndex(([, , letter]) => letter.toLowerCase() === key);
      if (found < 0 || !list.length) return false;
      card.querySelectorAll(".choices button")[found].click();
      return true;
    },
  });
  (async () => {
    const token = location.hash.slice(1);
    if (token) { history.replaceState(null, "", location.pathname); await post("session", { token }); }
    const reply = await fetch("state", { credentials: "same-origin" });
    if (!reply.ok) { card.replaceChildren(make("p", {}, "Open the link that scotoma review printed.")); return; }
    state = await reply.json();
    document.getElementById("title").textContent = `Review ${state.about.project}, ${state.about.variant}`;
    filters();
    apply();
  })();
})();
