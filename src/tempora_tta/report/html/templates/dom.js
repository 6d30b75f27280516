// The few ways in which scripts touch the page. Names of methods, shifts and models only ever enter it as text.

function byId(id) { return document.getElementById(id); }

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => make("option", { value }, String(text))));
}
