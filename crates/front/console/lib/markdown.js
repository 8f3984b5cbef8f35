// @ts-check
/**
 * Markdown of answers, as vnodes: headings, paragraphs, code, quotes, lists, tables are left as text, links to http and
 * https only. There is no way from here to HTML.
 */

import { html } from './html.js';
import { visible } from './text.js';

/** A longer answer is shown as plain text: it was hardly written to be read. */
const MARKDOWN_MAX_CHARS = 200_000;
const NESTED_MAX = 6;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^(#{1,6})\s+(.+?)\s*#*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}>\s?/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(?=\S)([\s\S]{1,2000}?\S)\*\*|(?<![\w*])\*(?=\S)([^*\n]{1,1000}?\S)\*(?![\w*])|\[([^\]\n]{1,500})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>()"'`\]]{1,2000})/g;

/** @param {Props.Markdown} _ */
export function Markdown({ text }) {
  const shown = visible(text);
  if (shown.length > MARKDOWN_MAX_CHARS) return html`<pre class="plain-text" tabindex="0">${shown}</pre>`;
  return html`<div class="markdown" dir="auto">${blocks(shown.split('\n'), 0)}</div>`;
}

/**
 * @param {string[]} lines
 * @param {number} depth
 * @returns {Child[]}
 */
function blocks(lines, depth) {
  /** @type {Child[]} */
  const out = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? '';
    const [block, next] = line.trim() === '' ? [null, at + 1] : block_(lines, at, depth);
    if (block) out.push(block);
    at = next;
  }
  return out;
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {[Child, number]}
 */
function block_(lines, at, depth) {
  const line = lines[at] ?? '';
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence[1] ?? '```');
  const heading = HEADING.exec(line);
  if (heading) return [html`<p class="heading h${heading[1]?.length}">${inline(heading[2] ?? '')}</p>`, at + 1];
  if (RULE.test(line)) return [html`<hr />`, at + 1];
  if (QUOTE.test(line) && depth < NESTED_MAX) {
    const end = until(lines, at, (one) => !QUOTE.test(one));
    const inner = lines.slice(at, end).map((one) => one.replace(QUOTE, ''));
    return [html`<blockquote>${blocks(inner, depth + 1)}</blockquote>`, end];
  }
  if (ITEM.test(line) && depth < NESTED_MAX) return list(lines, at, depth);
  const end = until(lines, at + 1, (one) => one.trim() === '' || FENCE.test(one) || HEADING.test(one) || ITEM.test(one) || QUOTE.test(one));
  return [html`<p>${inline(lines.slice(at, end).join('\n'))}</p>`, end];
}

/** @param {string[]} lines @param {number} from @param {(line: string) => boolean} stops */
function until(lines, from, stops) {
  let end = from;
  while (end < lines.length && !stops(lines[end] ?? '')) end += 1;
  return end;
}

/** @param {string[]} lines @param {number} at @param {string} fence @returns {[Child, number]} */
function code(lines, at, fence) {
  const end = until(lines, at + 1, (line) => line.trimStart().startsWith(fence));
  return [html`<pre class="code" tabindex="0"><code>${lines.slice(at + 1, end).join('\n')}</code></pre>`, end + 1];
}

/** @param {string[]} lines @param {number} at @param {number} depth @returns {[Child, number]} */
function list(lines, at, depth) {
  const first = ITEM.exec(lines[at] ?? '');
  const indent = first?.[1]?.length ?? 0;
  const ordered = /\d/.test(first?.[2] ?? '');
  /** @type {string[][]} */
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const line = lines[end] ?? '';
    const item = ITEM.exec(line);
    if (item && (item[1]?.length ?? 0) <= indent) {
      if (/\d/.test(item[2] ?? '') !== ordered) break;
      items.push([item[3] ?? '']);
    } else if (line.trim() === '' ? ITEM.test(lines[end + 1] ?? '') || /^\s{2,}\S/.test(lines[end + 1] ?? '') : /^\s/.test(line) || item) {
      items.at(-1)?.push(line.slice(Math.min(indent + 2, line.length - line.trimStart().length)));
    } else break;
  }
  const shown = items.map((item) => html`<li>${item.length > 1 ? blocks(item, depth + 1) : inline(item[0] ?? '')}</li>`);
  return [ordered ? html`<ol start=${parseInt(first?.[2] ?? '1', 10)}>${shown}</ol>` : html`<ul>${shown}</ul>`, end];
}

/** @param {string} text @returns {Child[]} */
function inline(text) {
  /** @type {Child[]} */
  const out = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, , verbatim, strong, emphasis, label, target, bare] = found;
    out.push(text.slice(from, found.index));
    from = found.index + whole.length;
    if (verbatim !== undefined) out.push(html`<code>${verbatim.trim()}</code>`);
    else if (strong !== undefined) out.push(html`<strong>${inline(strong)}</strong>`);
    else if (emphasis !== undefined) out.push(html`<em>${emphasis}</em>`);
    else out.push(bare ? link(bare, bare) : link(target ?? '', label ?? '', whole));
  }
  out.push(text.slice(from));
  return out;
}

/**
 * A link shows where it leads when its label does not: a label can say anything.
 * @param {string} target @param {string} label @param {string} [otherwise]
 */
function link(target, label, otherwise = label) {
  const url = URL.canParse(target) ? new URL(target) : null;
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.username) return otherwise;
  const named = label === target ? label : `${label} (${url.host})`;
  return html`<a href=${url.href} target="_blank" rel="noopener noreferrer nofollow">${named}</a>`;
}
