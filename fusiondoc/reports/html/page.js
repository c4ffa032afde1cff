"use strict";
// Texts of the log reach the page through textContent only.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const $ = (id) => document.getElementById(id);

  const make = (tag, text, css) => {
    const element = document.createElement(tag);
    if (text) element.textContent = text;
    if (css) element.className = css;
    return element;
  };

  // A link to a folded row opens it.
  const unfold = () => {
    const target = location.hash.length > 1 && $(decodeURIComponent(location.hash.slice(1)));
    if (!target || target.tagName !== "DETAILS") return;
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus({ preventScroll: true });
  };
  addEventListener("hashchange", unfold);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.getAttribute("href") === location.hash) setTimeout(unfold);
  });
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((row) => { row.open = true; });
  });
  addEventListener("afterprint", () => folded.forEach((row) => { row.open = false; }));

  // The tree of modules: each column sorts the modules within the one above them.
  const tree = $("module-tree");
  if (tree) {
    const sort = (head, key) => {
      const up = head.getAttribute("aria-sort") === "descending" || (key === "at" && !head.getAttribute("aria-sort"));
      tree.querySelectorAll("[data-sort]").forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      tree.querySelectorAll("ul").forEach((list) => {
        const by = (item) => Number(item.dataset[key]);
        list.append(...[...list.children].sort((a, b) => (up ? by(a) - by(b) : by(b) - by(a)) || a.dataset.at - b.dataset.at));
      });
    };
    tree.querySelectorAll("[data-sort]").forEach((head) => {
      const button = make("button", head.textContent);
      button.type = "button";
      button.addEventListener("click", () => sort(head, head.dataset.sort));
      head.replaceChildren(button);
    });
    tree.querySelectorAll("[data-fold]").forEach((button) => button.addEventListener("click", () => {
      tree.querySelectorAll("details").forEach((row) => { row.open = button.dataset.fold === "open"; });
    }));
  }

  const holder = $("programs");
  if (!holder) { unfold(); return; }
  const data = JSON.parse(holder.textContent);
  const text = (number) => (number < 0 ? "" : data.texts[number]);
  const select = $("choose");
  const canvas = $("canvas");
  const details = $("details");
  const heading = $("details-title");
  const split = canvas.parentElement;
  let current = null; // the picture that is shown
  let chosen = null;
  let reason = "";

  const nodesOf = (picture) => [...picture.querySelectorAll(".node")];
  const matches = (element) => reason === "" || (reason === "fused" ? element.dataset.group !== undefined : element.dataset.reason === reason);

  const hold = (element, focus) => {
    const before = current.querySelector('.node[tabindex="0"]');
    if (before) before.setAttribute("tabindex", "-1");
    element.setAttribute("tabindex", "0");
    if (focus) {
      element.focus({ preventScroll: true });
      element.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  };

  const fact = (list, name, values, code) => {
    const known = values.filter(Boolean);
    if (!known.length) return;
    const row = make("div");
    const value = make("dd");
    known.forEach((one) => value.append(make(code ? "code" : "span", one, "line")));
    row.append(make("dt", name), value);
    list.append(row);
  };

  const quote = (list, where, line) => {
    const item = make("li");
    item.append(make("span", where, "where"));
    if (line) item.append(make("code", line));
    list.append(item);
  };

  const showGroup = (id) => {
    const row = $(id);
    heading.textContent = id;
    const link = make("a", "Go to its row under Groups");
    link.href = "#" + id;
    const body = row ? row.querySelector(".body").cloneNode(true) : make("p", "Its row is left out.");
    details.replaceChildren(link, body);
  };

  const showNode = (node) => {
    const [, op, source, user, code, why, condition, inside, inputs, outputs, where, line, program] = node;
    heading.textContent = text(op);
    const list = make("dl", "", "facts");
    const quotes = make("ul", "", "quotes");
    const about = why < 0 ? null : data.reasons[why];
    if (about) fact(list, `Not fused: ${about[0]} (${about[2] ? "the log states it" : "worked out"})`, [about[1]]);
    fact(list, "Your line", [text(user)]);
    fact(list, "Code", [text(code)], true);
    fact(list, "Source as printed", [text(source)]);
    fact(list, "Depends on", [text(condition)]);
    fact(list, "Stands in", [text(inside)]);
    fact(list, "IR", [text(line)], true);
    fact(list, "Inputs", inputs.map(text), true);
    fact(list, "Outputs", outputs.map(text), true);
    if (text(where)) quote(quotes, text(where), text(line));
    if (about) {
      about[3].forEach(([place, said]) => { if (place !== text(where)) quote(quotes, place, said); });
      if (about[4] > about[3].length) quotes.append(make("li", `${about[4]} lines in all`, "muted"));
    }
    const parts = [list];
    if (text(program)) {
      const button = make("button", `Show its plan ${text(program)}`);
      button.type = "button";
      button.addEventListener("click", () => { select.value = text(program); show(); select.focus(); });
      parts.unshift(button);
    }
    if (quotes.children.length) parts.push(make("h4", "In the log"), quotes);
    details.replaceChildren(...parts);
  };

  const choose = (element) => {
    if (chosen) chosen.setAttribute("aria-pressed", "false");
    chosen = element;
    element.setAttribute("aria-pressed", "true");
    hold(element, false);
    split.classList.add("chosen");
    const node = data.programs[select.value][Number(element.dataset.i)];
    if (node[0] >= 0) showGroup(text(node[0])); else showNode(node);
    const narrow = matchMedia("(max-width: 63.99rem)").matches;
    if (narrow) heading.scrollIntoView({ block: "nearest" });
    else element.scrollIntoView({ block: "nearest", inline: "nearest" });
  };

  const filter = () => {
    const nodes = nodesOf(current);
    const hits = nodes.filter(matches);
    nodes.forEach((element) => element.classList.toggle("dim", !matches(element)));
    canvas.classList.toggle("filtered", reason !== "");
    document.querySelectorAll("#unfused tr[data-reason]").forEach((row) => {
      row.hidden = reason !== "" && reason !== "fused" && row.dataset.reason !== reason;
    });
    $("matches").textContent = reason === "" ? "" : `${hits.length} of ${nodes.length} boxes of this program`;
    if (reason !== "" && hits.length) {
      hold(hits[0], false);
      hits[0].scrollIntoView({ block: "nearest", inline: "center" });
    }
  };

  let scale = 1;
  const zoom = (to) => {
    const svg = current.querySelector("svg");
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    scale = Math.min(2.5, Math.max(0.08, to));
    svg.setAttribute("width", Math.round(width * scale));
    svg.setAttribute("height", Math.round(height * scale));
  };
  const fit = () => {
    const width = Number(current.querySelector("svg").getAttribute("viewBox").split(" ")[2]);
    zoom(Math.min(1, (canvas.clientWidth - 16) / width));
  };

  const show = () => {
    document.querySelectorAll(".program").forEach((picture) => { picture.hidden = true; });
    current = $("picture-" + select.value);
    current.hidden = false;
    scale = 1;
    zoom(1);
    canvas.scrollTop = 0;
    canvas.scrollLeft = (canvas.scrollWidth - canvas.clientWidth) / 2;
    const nodes = nodesOf(current);
    if (nodes.length && !current.querySelector('.node[tabindex="0"]')) hold(nodes[0], false);
    filter();
  };

  canvas.addEventListener("click", (event) => {
    const element = event.target.closest(".node");
    if (element) { hold(element, true); choose(element); }
  });
  canvas.addEventListener("keydown", (event) => {
    const element = event.target.closest(".node");
    if (!element) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(element);
      return;
    }
    const nodes = nodesOf(current).filter(matches);
    const at = nodes.indexOf(element);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: nodes.length - 1 }[event.key];
    if (to === undefined || !nodes[to]) return;
    event.preventDefault();
    hold(nodes[to], true);
  });
  select.addEventListener("change", show);
  $("zoom-in").addEventListener("click", () => zoom(scale * 1.25));
  $("zoom-out").addEventListener("click", () => zoom(scale / 1.25));
  $("zoom-fit").addEventListener("click", fit);
  const chips = $("filter");
  if (chips) chips.addEventListener("change", (event) => { reason = event.target.value; filter(); });
  show();
  unfold();
})();
