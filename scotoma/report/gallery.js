// The gallery: sifting by class, group and kind of flip, and the arrow keys from pair to pair.
// In a frame: downloads show as text where it may not save files, and links stay in the page.
(() => {
  "use strict";
  const pairs = [...document.querySelectorAll(".pairs > li")];
  const bar = document.getElementById("filters");

  const matches = (pair, [key, wanted]) =>
    !wanted || pair.dataset[key].split(" ").includes(wanted);

  const sift = () => {
    const wanted = [...bar.querySelectorAll("select")].map((s) => [s.dataset.filter, s.value]);
    for (const pair of pairs) pair.hidden = !wanted.every((choice) => matches(pair, choice));
    const shown = pairs.filter((pair) => !pair.hidden).length;
    document.getElementById("filtered").textContent = `${shown} of ${pairs.length} pairs`;
    for (const list of document.querySelectorAll(".pairs")) enter(list);
  };

  // One pair of a list is in the tab order; from it the arrow keys lead to the others.
  const enter = (list, to) => {
    const visible = [...list.children].filter((pair) => !pair.hidden);
    for (const pair of list.children) pair.tabIndex = -1;
    const first = to ?? visible[0];
    if (first) first.tabIndex = 0;
  };

  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const walk = (event) => {
    if (event.target.parentElement !== event.currentTarget) return;
    const visible = [...event.currentTarget.children].filter((pair) => !pair.hidden);
    const at = visible.indexOf(event.target);
    const ends = { Home: 0, End: visible.length - 1 };
    const to = visible[event.key in STEPS ? at + STEPS[event.key] : ends[event.key]];
    if (!to) return;
    event.preventDefault();
    enter(event.currentTarget, to);
    to.focus();
  };

  for (const list of document.querySelectorAll(".pairs")) {
    enter(list);
    list.addEventListener("keydown", walk);
  }
  if (bar) {
    bar.hidden = false;
    bar.addEventListener("change", sift);
    sift();
  }

  const asText = (event) => {
    const link = event.currentTarget;
    event.preventDefault();
    const shown = link.parentElement.querySelector("textarea");
    if (shown) return shown.remove();
    const bytes = Uint8Array.from(atob(link.href.split(",")[1]), (c) => c.charCodeAt(0));
    const text = document.createElement("textarea");
    text.readOnly = true;
    text.rows = 12;
    text.setAttribute("aria-label", link.textContent);
    text.value = new TextDecoder().decode(bytes);
    link.parentElement.append(text);
    text.focus();
    text.select();
  };
  if (window.self !== window.top) {
    for (const link of document.querySelectorAll("a[download]")) {
      link.addEventListener("click", asText);
    }
  }

  // In a frame that Kubeflow fills, "#gate" is an address of the page around it.
  const within = (event) => {
    const link = event.target.closest('a[href^="#"]');
    const target = link && document.getElementById(link.getAttribute("href").slice(1));
    if (!target) return;
    event.preventDefault();
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      fold.open = true;
    }
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
    target.scrollIntoView();
  };
  if (location.href === "about:srcdoc") document.addEventListener("click", within);
})();
