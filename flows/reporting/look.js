"use strict";
// Texts are only ever set as text, so that nothing in them is markup.
const at = (id) => document.getElementById(id);
const Z = 1.959964;
const ENDED = "zyda look has ended: start it again, and open the link that it prints.";
// The login stands in the address of no tab, history entry or bookmark, and is forgotten with the server.
let login = location.hash.slice(1);
if (login) history.replaceState(null, "", location.pathname);
addEventListener("hashchange", () => location.reload()); // the link, opened again in this tab
let sample = JSON.parse(at("sample").textContent);
let said = [];
let place = 0;

function element(kind, text, className) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function texts(segments, className) {
  const made = element("pre", "", className);
  for (const one of segments) made.append(one.is_same ? document.createTextNode(one.text) : element("mark", one.text));
  return made;
}

function show() {
  const items = sample.items, isOver = place >= items.length, item = items[place];
  at("title").textContent = sample.title;
  at("question").textContent = isOver ? "" : sample.question;
  at("where").textContent = `${Math.min(place + 1, items.length)} of ${items.length}, ${said.filter(Boolean).length} judged`;
  at("facts").replaceChildren(...(isOver ? [] : item.facts.map((fact) => element("p", fact, "note"))));
  at("texts").replaceChildren(...(isOver ? [] : [texts(item.left, "left"), ...(item.right.length ? [texts(item.right, "right")] : [])]));
  for (const shown of at("texts").children) {
    const mark = shown.querySelector("mark");
    if (mark) shown.scrollTop = mark.offsetTop - shown.offsetTop - 40; // the first difference is in sight
  }
  at("result").replaceChildren(...(isOver ? [result()] : []));
  at("yes").hidden = at("no").hidden = isOver;
  at("yes").className = !isOver && said[place] && said[place].is_right ? "said" : "";
  at("no").className = !isOver && said[place] && !said[place].is_right ? "said" : "";
  at("save").hidden = sample.is_served;
  scrollTo(0, 0);
}

function result() {
  const counts = new Map();
  for (const one of said.filter(Boolean)) {
    const by = [one.stage, one.reason].filter(Boolean).join(": ");
    for (const source of [one.source, "all"]) {
      const key = JSON.stringify([by, source]);
      const count = counts.get(key) || [0, 0];
      counts.set(key, [count[0] + one.is_right, count[1] + 1]);
    }
  }
  const table = document.createElement("table");
  table.append(row("th", ["by", "source", "right", "of", "share", "95 % interval"]));
  for (const [key, [right, of]] of [...counts].sort()) {
    const share = right / of, size = (Z * Z) / of, middle = (share + size / 2) / (1 + size);
    const half = (Z * Math.sqrt((share * (1 - share)) / of + size / (4 * of))) / (1 + size);
    const percent = (part) => `${(100 * Math.min(1, Math.max(0, part))).toFixed(1)} %`;
    table.append(row("td", [...JSON.parse(key), right, of, percent(share), `${percent(middle - half)} to ${percent(middle + half)}`]));
  }
  return table;
}

function row(kind, cells) {
  const made = document.createElement("tr");
  made.append(...cells.map((cell) => element(kind, cell)));
  return made;
}

async function judge(isRight) {
  const item = sample.items[place];
  if (!item) return;
  const { doc_id, other, source, stage, reason } = item;
  const judgement = { doc_id, other, source, stage, reason, is_right: isRight, at: new Date().toISOString() };
  if (sample.is_served) {
    const answer = login && (await fetch("judgement", { method: "POST", headers: headers(), body: text(judgement) }).catch(() => null));
    if (!answer || !answer.ok) {
      at("question").textContent = `It was not kept. ${ENDED}`;
      return;
    }
  }
  said[place] = judgement;
  place += 1;
  show();
}

// An id has more digits than a number here holds exactly, so it stands in a text.
const text = (value) => JSON.stringify(value).replace(/"(doc_id|other)":"(\d+)"/g, '"$1":$2');
const headers = () => ({ Authorization: `Basic ${login}`, "Content-Type": "application/json" });

function save() {
  const looking = { ...sample.looking, judgements: said.filter(Boolean) };
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text(looking)], { type: "application/json" }));
  link.download = "looked.json";
  link.click();
}

function move(by) {
  place = Math.min(sample.items.length, Math.max(0, place + by));
  show();
}

const KEYS = { r: () => judge(true), w: () => judge(false), ArrowLeft: () => move(-1), ArrowRight: () => move(1) };
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const action = KEYS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});
at("yes").onclick = KEYS.r;
at("no").onclick = KEYS.w;
at("back").onclick = KEYS.ArrowLeft;
at("on").onclick = KEYS.ArrowRight;
at("save").onclick = save;

// The answer to this ends with the server, even where that is killed. Another program may have its port then.
async function watch() {
  const { body } = await fetch("alive", { headers: headers() });
  const reader = body.getReader();
  while (!(await reader.read()).done);
}

async function begin() {
  if (sample.is_served) {
    const answer = await fetch("sample", { headers: headers() });
    if (!answer.ok) {
      at("question").textContent = "Not signed in: open the link that zyda look has printed.";
      return;
    }
    sample = await answer.json();
    watch().catch(() => null).then(() => {
      login = "";
      at("question").textContent = ENDED;
    });
  }
  show();
}
begin();
