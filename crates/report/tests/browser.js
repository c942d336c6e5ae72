// Looks at pages in frames as a reader has them, and leaves what it finds in the document. The
// pages themselves hold no script.
"use strict";

// What text needs against its background, for everybody to read it: WCAG 2, level AA.
const LEAST_CONTRAST = 4.5;

function channels(colour) {
  const match = colour.match(/^rgba?\(([^)]*)\)$/);
  if (!match) throw new Error("cannot read the colour " + colour);
  const [red, green, blue, alpha = 1] = match[1].split(/[\s,/]+/).map(Number);
  return [red, green, blue, alpha];
}

function over([red, green, blue, alpha], below) {
  return [red, green, blue].map((value, i) => value * alpha + below[i] * (1 - alpha));
}

function background(element, window) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    layers.push(channels(window.getComputedStyle(at).backgroundColor));
  }
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
}

function opacity(element, window) {
  let product = 1;
  for (let at = element; at; at = at.parentElement) product *= window.getComputedStyle(at).opacity;
  return product;
}

function luminance(colour) {
  const [red, green, blue] = colour.map(value => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function quoted(text) {
  return "'" + text.trim().replace(/\s+/g, " ").slice(0, 40) + "'";
}

function lookAt(frame) {
  const document = frame.contentDocument;
  const window = frame.contentWindow;
  const faults = new Set();
  // What is folded away is read too.
  for (const details of document.querySelectorAll("details")) details.open = true;

  const wide = document.documentElement.scrollWidth;
  if (wide > window.innerWidth) {
    // What lies in a container that scrolls is not what makes the page wide.
    const contained = element => element !== document.body &&
      (window.getComputedStyle(element).overflowX !== "visible" || contained(element.parentElement));
    const first = [...document.body.querySelectorAll("*")].find(
      e => e.getBoundingClientRect().right > window.innerWidth && !contained(e));
    const by = first ? `, by <${first.localName}> ${quoted(first.textContent)}` : "";
    faults.add(`overflow: the page is ${wide} px wide${by}`);
  }

  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const range = document.createRange();
    range.selectNodeContents(node);
    const seen = [...range.getClientRects()].some(box => box.width > 0 && box.height > 0);
    if (!node.data.trim() || !seen || !element.checkVisibility({ visibilityProperty: true })) continue;
    texts += 1;
    const style = window.getComputedStyle(element);
    const below = background(element, window);
    const [red, green, blue, alpha] = channels(element.closest("svg") ? style.fill : style.color);
    const drawn = over([red, green, blue, alpha * opacity(element, window)], below);
    const found = contrast(drawn, below);
    if (found < LEAST_CONTRAST) faults.add(`contrast: ${found.toFixed(2)} of ${quoted(node.data)}`);
  }

  for (const text of document.querySelectorAll("svg text")) {
    const [box, chart] = [text, text.ownerSVGElement].map(e => e.getBoundingClientRect());
    if (chart.width > 0 && (box.left < chart.left - 1 || box.right > chart.right + 1)) {
      faults.add(`cut: ${quoted(text.textContent)} leaves its chart`);
    }
  }

  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  for (const id of ids) {
    if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.add(`reference: '${id}' is there twice`);
  }
  for (const name of ["href", "aria-labelledby", "aria-describedby", "for"]) {
    for (const element of document.querySelectorAll(`[${name}]`)) {
      const value = element.getAttribute(name);
      if (name === "href" && !value.startsWith("#")) continue;
      for (const id of value.replace(/^#/, "").split(/\s+/)) {
        if (!ids.includes(id)) faults.add(`reference: ${name} names '${id}', which is not there`);
      }
    }
  }

  const figures = document.querySelectorAll("figure");
  for (const figure of figures) {
    if (!figure.querySelector("details table tbody tr")) {
      faults.add(`table: none is behind ${quoted(figure.textContent)}`);
    }
  }
  for (const chart of document.querySelectorAll("svg")) {
    if (!chart.closest("figure")) faults.add("table: a chart is in no figure");
  }

  return {
    page: frame.dataset.page,
    width: window.innerWidth,
    dark: window.matchMedia("(prefers-color-scheme: dark)").matches,
    texts,
    figures: figures.length,
    faults: [...faults],
  };
}

window.addEventListener("load", () => {
  const findings = document.createElement("pre");
  findings.id = "findings";
  try {
    findings.textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(lookAt));
  } catch (error) {
    findings.textContent = JSON.stringify(String(error.stack));
  }
  document.body.replaceChildren(findings);
});
