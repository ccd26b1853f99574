"""A self-contained HTML page: a picture with steps, which a button, a slider or an arrow key
selects.

Without JavaScript the page shows all steps below the picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root{color-scheme:light dark;scroll-padding-bottom:46vh}
body{font:14px/1.5 'Helvetica Neue',Helvetica,Arial,sans-serif;max-width:980px;margin:24px auto;
padding:0 16px;color:#1f2328;background:#f6f8fa}
h1{font-size:20px}h2{font-size:15px;margin:12px 0 8px}svg{max-width:100%;height:auto}
code,td{font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}
table{border-collapse:collapse;margin:8px 0}
th,td{text-align:left;vertical-align:top;padding:3px 14px 3px 0;border-top:1px solid #8886}
th{font-weight:400;opacity:.7}td{white-space:pre}td:nth-child(3){white-space:normal}
nav{display:flex;gap:8px;align-items:center;padding:10px 0}nav[hidden]{display:none}
nav input{flex:1}button{font:inherit;padding:2px 12px}
.stepped section{position:sticky;bottom:0;max-height:45vh;overflow:auto;background:inherit;
border-top:1px solid #8886}.stepped ol{list-style:none;padding:0;margin:0 0 10px}
.stepped [data-steps]{cursor:pointer}svg text:not(:has(title)){pointer-events:none}
.later{opacity:.35}
rect.on{stroke:#bc4c00;stroke-width:2.5}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#010409}rect.on{stroke:#f0883e}}
"""
_SCRIPT = """
const by = id => document.getElementById(id), items = [...by('steps').children];
const marks = [...document.querySelectorAll('[data-steps]')].map(
  mark => [mark, mark.dataset.steps.split(' ').map(Number)]);
let at = 0, timer = 0;
function show(n) {
  at = Math.max(0, Math.min(items.length - 1, n));
  document.body.dataset.step = by('slider').value = at;
  by('said').textContent = `${at + 1} of ${items.length}`;
  items.forEach((item, i) => { item.hidden = i !== at; });
  for (const [mark, steps] of marks) {
    mark.classList.toggle('on', steps.includes(at));
    mark.classList.toggle('later', steps.every(i => i > at));
  }
}
function go(n) {
  clearInterval(timer);
  timer = 0;
  by('play').textContent = 'play';
  show(n);
  document.querySelector('.on')?.scrollIntoView({block: 'nearest'});
}
by('play').onclick = () => {
  if (timer) return go(at);
  go(at === items.length - 1 ? 0 : at);
  by('play').textContent = 'stop';
  timer = setInterval(() => at === items.length - 1 ? go(at) : show(at + 1), 600);
};
by('back').onclick = () => go(at - 1);
by('next').onclick = () => go(at + 1);
by('slider').oninput = () => go(Number(by('slider').value));
for (const [mark, steps] of marks) mark.onclick = () => go(steps[0]);
document.onkeydown = event => {
  if (event.target === by('slider') || event.altKey || event.ctrlKey || event.metaKey) return;
  const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: items.length - 1}[event.key];
  if (to !== undefined) { event.preventDefault(); go(to); }
};
document.querySelector('nav').hidden = false;
document.body.className = 'stepped';
show(0);
"""
_STEPS = """<section><nav hidden aria-label="steps">
<button id="back">back</button><button id="next">next</button><button id="play">play</button>
<input id="slider" type="range" min="0" max="{last}" value="0" aria-label="step">
<output id="said" aria-live="polite"></output></nav>
<ol id="steps">{items}</ol></section><script>{script}</script>"""


def page(title: str, picture: str, steps: Sequence[str]) -> str:
    """Return the HTML page. title: plain text. picture: an SVG. steps: HTML for each step.
    Attributes `data-steps` in the picture contain the numbers of steps."""
    items = "\n".join(f"<li>{step}</li>" for step in steps)
    stepped = _STEPS.format(last=len(steps) - 1, items=items, script=_SCRIPT) if steps else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{picture}{stepped}</body></html>\n"
    )


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + row("th", header) + "".join(row("td", cells) for cells in rows) + "</table>"
