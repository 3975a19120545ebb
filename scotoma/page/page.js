// The page: folded parts open for links that lead into them, the section in view is marked, tables
// that scroll say so. In a frame links stay in the page.
(() => {
  "use strict";
  const target = (hash) => document.getElementById(decodeURIComponent(hash.slice(1)));

  const unfold = (element) => {
    for (let fold = element?.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      fold.open = true;
    }
  };

  const follow = () => {
    const element = location.hash && target(location.hash);
    if (!element) return;
    unfold(element);
    element.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  if (location.hash) follow();

  // In a frame that Kubeflow fills, "#gate" is an address of the page around it.
  const within = location.href === "about:srcdoc";
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    const element = link && target(link.getAttribute("href"));
    if (!element) return;
    unfold(element);
    if (!within) return;
    event.preventDefault();
    element.tabIndex = -1;
    element.focus({ preventScroll: true });
    element.scrollIntoView();
  });

  // The section in view: the last one whose head has passed the upper third of the window.
  const links = [...document.querySelectorAll('nav a[href^="#"]')];
  const heads = links.map((link) => target(link.getAttribute("href")));
  let due = false;
  const marked = () => {
    due = false;
    const passed = heads.filter((head) => head.getBoundingClientRect().top < innerHeight / 3);
    const at = heads.indexOf(passed.at(-1) ?? heads[0]);
    links.forEach((link, place) => {
      if (place === at) link.setAttribute("aria-current", "location");
      else link.removeAttribute("aria-current");
    });
  };
  const mark = () => {
    if (!due) requestAnimationFrame(marked);
    due = true;
  };
  addEventListener("scroll", mark, { passive: true });
  addEventListener("resize", mark);
  mark();

  const hint = new ResizeObserver((entries) => {
    for (const { target: frame } of entries) {
      frame.toggleAttribute("data-scrolls", frame.scrollWidth > frame.clientWidth + 1);
    }
  });
  for (const frame of document.querySelectorAll(".frame")) hint.observe(frame);
})();
