"use strict";
// What the pages of a study and of a review share: elements, keys, help, storage.
const scotoma = (() => {
  const help = document.getElementById("help");
  const letters = document.getElementById("letters");
  const LETTERS = "scotoma-letters"; // whether single-letter keys are on, in this browser

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "onclick" || name === "onchange") element.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  };
  const button = (text, key, onclick, more = {}) =>
    make("button", { type: "button", onclick, ...more }, ...(key ? [make("kbd", { "aria-hidden": "true" }, key), " "] : []), text);

  function zoom() {
    const zoomed = document.querySelector(".item")?.classList.toggle("zoomed");
    document.getElementById("zoom")?.setAttribute("aria-pressed", String(zoomed));
  }
  // Call `enter`, `back` or `letter(key)`, which says whether the key was its own.
  function keys({ enter, back, letter }) {
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || help.open || event.target.matches("textarea, input, select")) return;
      const key = event.key.toLowerCase();
      const taken = event.key === "Enter" ? !event.target.matches("button") && enter()
        : event.key === "Backspace" ? back()
        : letters.checked && (key === "?" ? (help.showModal(), true) : letter(key));
      if (taken) event.preventDefault();
    });
  }
  document.getElementById("help-button").addEventListener("click", () => help.showModal());
  document.getElementById("help-close").addEventListener("click", () => help.close());
  try { // a browser may keep nothing
    letters.checked = localStorage.getItem(LETTERS) !== "off";
    letters.addEventListener("change", () => localStorage.setItem(LETTERS, letters.checked ? "on" : "off"));
  } catch { letters.checked = true; }
  return { make, button, keys, zoom };
})();
