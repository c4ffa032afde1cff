"use strict";
// Texts of the log reach the page through textContent only, or in the rows of a long list, escaped as the page is.
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

  // Of a long list only the first rows are read at once: two thousand take half of the time to show the page.
  const later = [...document.querySelectorAll("noscript.later")];
  const readPart = () => {
    const part = later.shift();
    const rows = make("template");
    rows.innerHTML = part.textContent; // as the page is written: text of the log is escaped in it
    sortable(rows.content);
    part.replaceWith(rows.content);
  };
  const readAll = () => { while (later.length) readPart(); };
  const row = (id) => {
    if (!$(id)) readAll();
    return $(id);
  };
  const idle = window.requestIdleCallback || ((act) => setTimeout(act, 20));
  const readOn = () => {
    if (!later.length) return;
    readPart();
    idle(readOn);
  };
  addEventListener("load", () => idle(readOn));

  // A link to a folded row opens it.
  const unfold = () => {
    const target = location.hash.length > 1 && row(decodeURIComponent(location.hash.slice(1)));
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
    readAll();
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

  // Tables: a click on a head sorts. Figures are read with their units, so 900 KB comes before 1.2 MB.
  const UNITS = { KB: 1e3, MB: 1e6, GB: 1e9, "µs": 1e-6, us: 1e-6, ms: 1e-3, ns: 1e-9 };
  const valueOf = (cell) => {
    const shown = cell ? cell.textContent.trim() : "";
    const number = /^(?:at least )?(-?[\d,]*\.?\d+)\s*([A-Za-zµ]+)?/.exec(shown);
    return number ? Number(number[1].replace(/,/g, "")) * (UNITS[number[2]] || 1) : shown;
  };
  const order = (a, b) => {
    if (typeof a !== typeof b) return typeof a === "number" ? 1 : -1;
    if (typeof a === "number") return a - b;
    return a < b ? -1 : Number(a > b);
  };
  const sortable = (part) => part.querySelectorAll(".scroll > table > thead > tr").forEach((heads) => {
    const body = heads.closest("table").tBodies[0];
    if (!body || body.rows.length < 2) return;
    [...heads.cells].forEach((head, column) => {
      if (!head.textContent.trim()) return;
      const button = make("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const was = head.getAttribute("aria-sort");
        const down = was ? was === "ascending" : head.classList.contains("n");
        [...heads.cells].forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
        rows.sort(([a], [b]) => (down ? order(b, a) : order(a, b)));
        body.append(...rows.map(([, row]) => row));
      });
    });
  });
  sortable(document);

  // Search: of every list of the page the rows stay that hold every word.
  const search = $("search");
  const LISTS = "main .scroll > table > tbody > tr, main .stack > details.row, main .finding, main .items > li, #module-tree li";
  let searched = null;
  const find = () => {
    readAll();
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    searched = searched || [...document.querySelectorAll(LISTS)]
      .filter((row) => row.closest("table.source") || !row.parentElement.closest("details.row, .details"))
      .filter((row) => !row.querySelector("table.source"))
      .map((row) => [row, row.textContent.toLowerCase()]);
    let hits = 0;
    searched.forEach(([row, content]) => {
      const fits = words.every((word) => content.includes(word));
      row.classList.toggle("missed", !fits);
      hits += fits;
    });
    $("found").textContent = words.length ? `${hits.toLocaleString("en")} rows` : "";
  };
  if (search) {
    let waiting = 0;
    search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(find, 120); });
    search.addEventListener("keydown", (event) => { if (event.key === "Escape") { search.value = ""; find(); } });
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
      event.preventDefault();
      search.focus();
    });
  }

  const holder = $("programs");
  if (!holder) { unfold(); return; }
  let parsed = null; // what the boxes are: read when one is opened
  const data = () => (parsed = parsed || JSON.parse(holder.textContent));
  const text = (number) => (number < 0 ? "" : data().texts[number]);
  const select = $("choose");
  const canvas = $("canvas");
  const details = $("details");
  const heading = $("details-title");
  const split = canvas.closest(".split");
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
    const group = row(id);
    heading.textContent = id;
    const link = make("a", "Go to its row under Groups");
    link.href = "#" + id;
    const body = group ? group.querySelector(".body").cloneNode(true) : make("p", "Its row is left out.");
    details.replaceChildren(link, body);
  };

  const showNode = (node) => {
    const [, op, source, user, code, why, condition, inside, inputs, outputs, where, line, program] = node;
    heading.textContent = text(op);
    const list = make("dl", "", "facts");
    const quotes = make("ul", "", "quotes");
    const about = why < 0 ? null : data().reasons[why];
    if (about) {
      fact(list, `Not fused: ${about[0]} (${about[2] ? "the log states it" : "worked out"})`, [about[1]]);
      fact(list, "What to do", [about[5]]);
      fact(list, `What ${about[0]} means`, [about[6] && `${about[6]}. Its page: fusiondoc explain ${about[0]}`]);
    }
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
      about[3].forEach(([line, excerpt]) => { if (line !== text(where)) quote(quotes, line, excerpt); });
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
    const node = data().programs[select.value][Number(element.dataset.i)];
    if (node[0] >= 0) showGroup(text(node[0])); else showNode(node);
    const narrow = matchMedia("(max-width: 63.99rem)").matches;
    if (narrow) heading.scrollIntoView({ block: "nearest" });
    else element.scrollIntoView({ block: "nearest", inline: "nearest" });
  };

  const filter = () => {
    if (!current) { show(); return; }
    const nodes = nodesOf(current);
    const hits = nodes.filter(matches);
    nodes.forEach((element) => element.classList.toggle("dim", !matches(element)));
    canvas.classList.toggle("filtered", reason !== "");
    document.querySelectorAll("#unfused tbody tr").forEach((row) => {
      row.hidden = reason !== "" && reason !== "fused" && !row.querySelector(`[data-reason="${reason}"]`);
    });
    $("matches").textContent = reason === "" ? "" : `${hits.length} of ${nodes.length} boxes of this program`;
    if (reason !== "" && hits.length) {
      hold(hits[0], false);
      hits[0].scrollIntoView({ block: "nearest", inline: "center" });
    }
  };

  let scale = 1;
  const zoom = (to) => {
    if (!current) { show(); return; }
    const svg = current.querySelector("svg");
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    scale = Math.min(2.5, Math.max(0.0005, to));
    svg.setAttribute("width", Math.max(1, Math.floor(width * scale)));
    svg.setAttribute("height", Math.max(1, Math.floor(height * scale)));
    overview();
  };
  // The whole picture, however long: the canvas is as high as its picture, up to a share of the window.
  const fit = () => {
    if (!current) show();
    const [, , width, height] = current.querySelector("svg").getAttribute("viewBox").split(" ").map(Number);
    const note = current.querySelector(".note");
    const room = (parseFloat(getComputedStyle(canvas).maxHeight) || canvas.clientHeight) - (note ? note.offsetHeight + 30 : 24);
    zoom(Math.min(1, (canvas.clientWidth - 20) / width, room / height));
    canvas.scrollTop = 0;
  };

  // The overview: every box as a dot, and what of it the canvas shows. A click goes there.
  const map = $("overview");
  let dots = null;
  const overview = () => {
    if (!current) return;
    const svg = current.querySelector("svg");
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    map.hidden = height * scale < canvas.clientHeight * 1.5 && width * scale < canvas.clientWidth * 1.5;
    if (map.hidden) return;
    if (!dots || dots.of !== current) {
      dots = nodesOf(current).map((node) => {
        const [x, y] = node.getAttribute("transform").match(/[\d.]+/g).map(Number);
        const rect = node.querySelector("rect");
        return [x, y, Number(rect.getAttribute("width")), Number(rect.getAttribute("height")), getComputedStyle(rect).stroke];
      });
      dots.of = current;
    }
    const ratio = Math.min(110 / width, (canvas.clientHeight - 20) / height);
    const sharp = devicePixelRatio || 1;
    const wide = Math.max(24, width * ratio);
    const across = wide / width;
    map.width = wide * sharp;
    map.height = height * ratio * sharp;
    map.style.width = `${wide}px`;
    map.style.height = `${height * ratio}px`;
    const pen = map.getContext("2d");
    pen.scale(sharp, sharp);
    dots.forEach(([x, y, w, h, colour]) => {
      pen.fillStyle = colour;
      pen.fillRect(x * across, y * ratio, Math.max(2, w * across), Math.max(1, h * ratio));
    });
    const [left, right] = [canvas.scrollLeft / scale, (canvas.scrollLeft + canvas.clientWidth) / scale];
    pen.strokeStyle = getComputedStyle(canvas).color;
    pen.lineWidth = 1.5;
    pen.strokeRect(left * across + 1, (canvas.scrollTop / scale) * ratio, Math.min(right * across, wide) - left * across - 2, Math.max(3, (canvas.clientHeight / scale) * ratio));
    map.dataset.across = across;
    map.dataset.down = ratio;
  };
  const goTo = (event) => {
    const box = map.getBoundingClientRect();
    canvas.scrollTop = ((event.clientY - box.top) / Number(map.dataset.down)) * scale - canvas.clientHeight / 2;
    canvas.scrollLeft = ((event.clientX - box.left) / Number(map.dataset.across)) * scale - canvas.clientWidth / 2;
  };
  map.addEventListener("pointerdown", (event) => { map.setPointerCapture(event.pointerId); goTo(event); });
  map.addEventListener("pointermove", (event) => { if (event.buttons) goTo(event); });
  canvas.addEventListener("scroll", () => requestAnimationFrame(overview), { passive: true });

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
    overview();
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
  // A large picture is drawn when it comes into view: thousands of boxes take as long as the rest of the page.
  if (canvas.querySelector(".program.large:not([hidden])") && "IntersectionObserver" in window) {
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((one) => one.isIntersecting)) return;
      seen.disconnect();
      if (!current) show();
    }, { rootMargin: "200px" });
    seen.observe(canvas);
  } else show();
  unfold();
})();
