// @ts-check
/** Who did what by hand: filtered, exported, verified in this browser. */

import { get } from '../lib/api.js';
import { verifyChain, verifySignature } from '../lib/audit.js';
import { html, useEffect, useMemo, useState } from '../lib/html.js';
import { useRows } from '../lib/load.js';
import { counted, line } from '../lib/text.js';
import { When } from '../lib/time.js';
import { Badge, Empty, Head, Line, Loading, Problem, Text } from '../parts/basics.js';
import { Rows } from '../parts/long.js';

/** @typedef {import('../lib/audit.js').Entry} Entry */
/** @typedef {import('../lib/audit.js').Part} Part */
/** @typedef {import('../lib/audit.js').Finding} Finding */

const READ_MAX = 20_000;
const PAGE = 500;

/** The newest part of the record, or all of it. @returns {Promise<Part & { whole: boolean }>} */
async function record() {
  const first = await get('audit', { limit: PAGE });
  const entries = [...first.entries];
  let page = first;
  while (page.next && entries.length < READ_MAX) {
    page = await get('audit', { limit: PAGE, before: page.next });
    entries.push(...page.entries);
  }
  return { ...first, before: page.before ?? null, entries, whole: !page.next };
}

/** @param {string} name @param {string} type @param {string} content */
function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A cell that a spreadsheet doesn't take for a formula. @param {unknown} value */
function cell(value) {
  const text = String(value ?? '');
  return `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

/** @param {Entry[]} entries */
const asCsv = (entries) => [['row', 'at', 'actor', 'what', 'subject', 'detail', 'sum'],
  ...entries.map((one) => [one.row, one.at, one.actor, one.what, one.subject, one.detail, one.sum])]
  .map((row) => row.map(cell).join(',')).join('\r\n');

/** @param {{ part: Part & { whole: boolean } }} props */
function Verified({ part }) {
  const [known, setKnown] = useState('');
  const [found, setFound] = useState(/** @type {{ chain: Finding, signature: Finding } | null} */ (null));
  useEffect(() => {
    if (!globalThis.crypto?.subtle) return;
    let left = false;
    setFound(null);
    Promise.all([verifyChain(part), verifySignature(part, known)]).then(([chain, signature]) => left || setFound({ chain, signature }));
    return () => { left = true; };
  }, [part, known]);
  if (!globalThis.crypto?.subtle) return html`<p class="remark">A browser verifies only on https or localhost. There: <code>codex-bridge audit</code>.</p>`;
  const shown = (/** @type {string} */ what, /** @type {Finding | undefined} */ finding) => html`<p>
    <${Badge} tone=${finding?.tone ?? 'waits'}>${what}</${Badge}> ${finding?.words ?? 'Looking…'}</p>`;
  return html`<section class="card verified" aria-live="polite"><h2>Verified in this browser</h2>
    ${shown('chain', found?.chain)}${shown('signature', found?.signature)}
    ${!part.whole && html`<p class="dim">The newest ${part.entries.length.toLocaleString()} rows; <code>codex-bridge audit</code> reads all.</p>`}
    <details><summary>Key</summary><p>The daemon’s: <code><${Text} text=${part.public_key ?? 'none'} /></code></p>
      <label class="field">The key that you trust, written down elsewhere
        <input value=${known} placeholder="ed25519:…" autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setKnown(event.target.value)} /></label></details>
  </section>`;
}

/** @param {{ entry: Entry }} props */
const Row = ({ entry }) => html`<div class="row entry"><span class="dim number">${entry.row}</span><${When} at=${entry.at} />
  <strong><${Line} text=${entry.what} length=${30} /></strong>
  <span class="what"><${Line} text=${entry.actor} length=${60} /> <code>${line(entry.subject, 60)}</code> <span class="dim"><${Line} text=${entry.detail} length=${200} /></span></span></div>`;

export function Audit() {
  const { value: part, error, reload } = useRows(record, []);
  const [typed, setTyped] = useState('');
  const [what, setWhat] = useState('');
  const words = useMemo(() => [...new Set(part?.entries.map((entry) => entry.what))].sort(), [part]);
  const shown = useMemo(() => {
    const wanted = typed.trim().toLowerCase();
    return (part?.entries ?? []).filter((entry) => (!what || entry.what === what)
      && (!wanted || [entry.actor, entry.subject, entry.detail, entry.what].some((text) => text.toLowerCase().includes(wanted))));
  }, [part, typed, what]);
  if (!part) return error ? html`<${Problem} error=${error} what="record of acts" again=${reload} />` : html`<${Loading} />`;
  const all = { ok: undefined, ...part, whole: undefined };
  return html`
    <${Head} title="Audit" sub="What people did by hand"><button onClick=${() => save('audit.csv', 'text/csv', asCsv(shown))}>Export ${shown.length.toLocaleString()} as CSV</button>
      <button title="Can be verified elsewhere: codex-bridge audit --file" onClick=${() => save('audit.json', 'application/json', JSON.stringify(all, null, 1))}>Export all as JSON</button></${Head}>
    <${Verified} part=${part} />
    <div class="filters"><input type="search" placeholder="Who, what, which id" aria-label="Filter the record" value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} />
      <label class="field inline">Act<select value=${what} onChange=${(/** @type {any} */ event) => setWhat(event.target.value)}>
        <option value="">all</option>${words.map((word) => html`<option value=${word}>${line(word, 40)}</option>`)}</select></label>
      <span class="dim" role="status">${counted(shown.length, 'row')}</span></div>
    ${shown.length === 0 ? html`<${Empty} title=${part.entries.length === 0 ? 'Nothing was done by hand' : 'Nothing fits'}>
        <p>${part.entries.length === 0 ? 'Decisions, retries, tokens and stops are written down here.' : 'Look for less.'}</p></${Empty}>`
      : html`<${Rows} rows=${shown} height=${41} label="Acts, newest first" id=${(/** @type {Entry} */ entry) => String(entry.row)} draw=${(/** @type {Entry} */ entry) => html`<${Row} entry=${entry} />`} />`}`;
}
