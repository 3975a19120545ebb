// Puts the live drawing in the place of the still one, which stays where that fails.
"use strict";
(() => {
  const NARROWEST = 280; // pixels; a narrower place scrolls
  const NARROW = 520; // below it a drawing leaves its words to the table

  async function draw(plot) {
    const spec = JSON.parse(plot.querySelector("script").textContent);
    const panel = spec.usermeta?.panel;
    if (panel) {
      spec.signals = [...(spec.signals ?? []), { name: "columns", value: 1 }];
      spec.layout.columns = { signal: "columns" };
    }
    const still = plot.querySelector(".still");
    const live = Object.assign(document.createElement("div"), { className: "live", hidden: true });
    const [controls, drawing] = [document.createElement("div"), document.createElement("div")];
    controls.className = "controls";
    live.append(controls, drawing);
    plot.append(live);
    const view = new vega.View(vega.parse(spec, null, { ast: true }), {
      container: drawing,
      bind: controls,
      expr: vega.expressionInterpreter,
      renderer: "svg",
      hover: true,
    });
    await fit(view, plot, panel);
    name(live, plot);
    live.hidden = false;
    still.remove();
    plot.dataset.live = "";
    settle(plot);
    new ResizeObserver(() => fit(view, plot, panel).then(() => settle(plot))).observe(plot);
  }

  // One drawing takes the width of its place; of several, as many stand in a row as it holds.
  async function fit(view, plot, panel) {
    const room = Math.max(NARROWEST, plot.clientWidth);
    if (panel) view.signal("columns", Math.max(1, Math.floor(room / panel)));
    else view.width(room).signal("narrow", room < NARROW);
    await view.resize().runAsync();
  }

  function name(live, plot) {
    const svg = live.querySelector("svg");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-labelledby", plot.getAttribute("aria-labelledby"));
  }

  // Only what scrolls needs the focus, so that keys can scroll it.
  function settle(plot) {
    if (plot.scrollWidth > plot.clientWidth) plot.tabIndex = 0;
    else plot.removeAttribute("tabindex");
  }

  const folded = (plot) => plot.closest("details:not([open])");

  async function drawAll(plots) {
    for (const plot of plots) {
      if (plot.dataset.live !== undefined || folded(plot)) continue;
      try {
        await draw(plot);
      } catch (error) {
        console.error(error);
      }
      await new Promise((resolve) => setTimeout(resolve)); // the page stays answerable
    }
    document.documentElement.dataset.figures = "live";
  }

  // One after the other; what is folded away is drawn when it opens.
  let drawing = drawAll(document.querySelectorAll("figure.figure .plot"));
  document.addEventListener("toggle", (event) => {
    const plots = event.target.querySelectorAll?.("figure.figure .plot") ?? [];
    if (!event.target.open || !plots.length) return;
    delete document.documentElement.dataset.figures;
    drawing = drawing.then(() => drawAll(plots));
  }, true);
})();
