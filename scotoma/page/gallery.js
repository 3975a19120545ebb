// The gallery: sifting by class, group and kind of flip, and the arrow keys from pair to pair.
(() => {
  "use strict";
  const pairs = [...document.querySelectorAll(".pair")];
  const bar = document.getElementById("filters");

  const matches = (pair, [key, wanted]) =>
    !wanted || pair.dataset[key].split(" ").includes(wanted);

  const sift = () => {
    const wanted = [...bar.querySelectorAll("select")].map((s) => [s.dataset.filter, s.value]);
    for (const pair of pairs) pair.hidden = !wanted.every((choice) => matches(pair, choice));
    const shown = pairs.filter((pair) => !pair.hidden).length;
    document.getElementById("filtered").textContent = `${shown} of ${pairs.length} examples`;
    for (const list of document.querySelectorAll(".pairs")) enter(list);
    if (!wanted.some(([, value]) => value)) return;
    // What matches may stand among the others.
    for (const more of document.querySelectorAll("details.further")) more.open = true;
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
})();
