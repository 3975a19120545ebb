// Puts the live drawing in the place of the still one, which stays where that fails.
"use strict";
(() => {
  const WIDEST = 760; // pixels; a line longer than that is no easier to read

  async function draw(plot) {
    const spec = JSON.parse(plot.querySelector("script").textContent);
    const still = plot.querySelector(".still");
    const live = document.createElement("div");
    live.className = "live";
    live.hidden = true;
    plot.append(live);
    const view = new vega.View(vega.parse(spec, null, { ast: true }), {
      container: live,
      expr: vega.expressionInterpreter,
      renderer: "svg",
      hover: true,
    });
    view.addResizeListener(() => name(live, plot));
    await fit(view, plot);
    name(live, plot);
    live.hidden = false;
    still.remove();
    plot.dataset.live = "";
    settle(plot);
    new ResizeObserver(() => fit(view, plot).then(() => settle(plot))).observe(plot);
  }

  // Drawings whose specification knows a signal `room` lay themselves out in it.
  async function fit(view, plot) {
    const room = Math.max(260, Math.min(WIDEST, plot.clientWidth));
    if ("room" in view.getState({ signals: (signal) => signal === "room" }).signals) {
      view.signal("room", room);
    }
    await view.runAsync();
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

  (async () => {
    for (const plot of document.querySelectorAll("figure.figure .plot")) {
      try {
        await draw(plot);
      } catch (error) {
        console.error(error);
      }
      await new Promise((resolve) => setTimeout(resolve)); // the page stays answerable
    }
    document.documentElement.dataset.figures = "live";
  })();
})();
