/** Conversations, searched and read; tasks; where one writes. */

import {
  Act, asApiError, Badge, bytes, complain, counted, Dialog, download, Empty, everything, Facts, Field, follow, find, full, get, goTo, Head, hex, html, Later, isOver, line,
  Loading, LongText, mark, notify, output, post, Problem, Rows, save, Select, short, SOURCE, Steps, typed, useEffect, useKeys, useListener, useMemo, useNew,
  useRef, useRows, useState, visible, when,
} from '../app.js';
import { isUndecided, Question } from './inbox.js';

/** The daemon takes 8 MiB in one body, and base64 makes a third more of a file. */
const FILES_MAX_BYTES = 5.5 * 1024 * 1024;

const upload = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve({ name: file.name, data: String(reader.result).replace(/^[^,]*,/, ''), size: file.size });
  reader.onerror = reject;
  reader.readAsDataURL(file);
});

/** The same message sent twice is one. A page of plain http has no `randomUUID`. */
const newKey = () => `console-${hex(crypto.getRandomValues(new Uint8Array(16)))}`;

function Uploads({ files, onChange }) {
  const add = async ({ target }) => {
    const picked = [...target.files];
    target.value = '';
    const size = [...files, ...picked].reduce((sum, file) => sum + file.size, 0);
    if (size > FILES_MAX_BYTES) notify(`Uploads of one message may have ${bytes(FILES_MAX_BYTES)} together.`, 'failed');
    else onChange([...files, ...await Promise.all(picked.map(upload))]);
  };
  return html`<span class="chips">
    ${files.map((file) => html`<button class="chip" onClick=${() => onChange(files.filter((one) => one !== file))} aria-label="Leave out ${line(file.name, 60)}">
      ${full(file.name)} <span class="dim">${bytes(file.size)}</span> ×</button>`)}
    <label class="button plain">Add files<input type="file" multiple class="spoken" onChange=${add} /></label></span>`;
}

function Write({ label, hint, send, verb, withFiles = false, rows = 2 }) {
  const [text, setText] = useState('');
  const [files, setFiles] = useState([]);
  const [busy, setBusy] = useState(false);
  // One key until it succeeded: what was sent and not confirmed is not sent twice.
  const key = useRef(newKey());
  const unsendable = busy || !text.trim();
  const edit = (next) => {
    setText(next);
    key.current = newKey();
  };
  const go = async () => {
    if (unsendable) return;
    setBusy(true);
    await send(text, files, key.current).then(() => {
      edit('');
      setFiles([]);
    }, complain);
    setBusy(false);
  };
  const onKeyDown = (event) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    go();
  };
  return html`<div class="write">
    <textarea aria-label=${label} placeholder=${label} rows=${rows} value=${text} onKeyDown=${onKeyDown} onInput=${typed(edit)}></textarea>
    <div class="write-foot"><p class="dim">${hint}</p>${withFiles && html`<${Uploads} files=${files} onChange=${setFiles} />`}
      <button class="primary" disabled=${unsendable} aria-busy=${busy} title="Ctrl+Enter" onClick=${go}>${verb}</button></div></div>`;
}

const sendMessage = (conversation, text, files, key) => post('messages', {
  text, conversation: conversation || undefined, files: files.length > 0 ? files.map(({ name, data }) => ({ name, data })) : undefined,
}, { 'idempotency-key': key });

const STEERED = {
  steered: 'The running turn has it.',
  queued: 'The next turn begins with it.',
  unknown: 'Codex’s word is missing: look at what it does before you say it again.',
};

/** @param {'messages' | 'tasks'} kind */
async function steer(kind, id, instruction) {
  const reply = await post(`${kind}/${id}/steer`, { instruction });
  if (reply.steer === 'refused') throw new Error(`It was refused: ${reply.why ?? 'no reason was given'}`);
  notify(STEERED[reply.steer] ?? 'It was taken.');
}

function Composer() {
  const [open, setOpen] = useState(false);
  useNew(setOpen);
  const [name, setName] = useState('');
  useKeys('Conversations', [{ key: 'n', what: 'new message', run: () => setOpen(true) }]);
  const send = async (text, files, key) => {
    const { message_id } = await sendMessage(name.trim(), text, files, key);
    setOpen(false);
    goTo(`messages/${message_id}/conversation`);
  };
  return html`<button class="primary" onClick=${() => setOpen(true)}>New message</button>
    ${open && html`<${Dialog} title="New message" wide onClose=${() => setOpen(false)}>
      <${Field} label="Conversation" value=${name} placeholder="main" onInput=${typed(setName)} />
      <${Write} label="What is to be done?" verb="Send" rows=${5} withFiles send=${send}
        hint="A conversation remembers what was said. It works in a directory of its own." /><//>`}`;
}

const FIRST = 50;
/** Of messages, and tasks. */
const PAGE = 30;
const LISTED_MAX = 5000;
const SHOWN_MAX = 30;
const TYPED_MS = 250;

/** A list whose newest page is read again and again, and older ones when asked for. */
function useOlder(path, field, id, newest) {
  const [older, setOlder] = useState(/** @type {any} */ ({}));
  const before = 'next' in older ? older.next : newest?.next;
  const more = () => get(path, { limit: PAGE, before }).then((/** @type {any} */ page) => setOlder({ rows: [...older.rows ?? [], ...page[field]], next: page.next }));
  const rows = newest?.[field] ?? [];
  const ids = new Set(rows.map((row) => row[id]));
  return { all: [...rows, ...(older.rows ?? []).filter((row) => !ids.has(row[id]))], more: before && more };
}

const PHASES = ['working', 'waiting for you', 'queued', 'failed', 'done', 'stopped'];

/** The newer ones count. @param {Api.ActiveConversation[]} older @param {Api.ActiveConversation[]} newer */
function merged(older, newer) {
  const ids = new Set(newer.map((one) => one.conversation_id));
  return [...newer, ...older.filter((one) => !ids.has(one.conversation_id))].sort((a, b) => b.active_at.localeCompare(a.active_at));
}

function useConversations() {
  const first = useRows(() => get('conversations', { limit: FIRST }), [], ({ name }) => name !== 'item');
  const [rest, setRest] = useState([]);
  const known = useRef([]);
  useEffect(() => {
    const before = first.value?.next;
    if (before) everything('conversations', 'conversations', { before }, LISTED_MAX).then(setRest, complain);
  }, [!first.value]);
  const rows = useMemo(() => {
    known.current = merged(rest, merged(known.current, first.value?.conversations ?? []));
    return known.current;
  }, [rest, first.value]);
  return { ...first, rows: first.value && rows };
}

function useFound(wanted, limit = 50) {
  const [found, setFound] = useState(/** @type {Api.SearchList?} */ (null));
  useEffect(() => {
    setFound(null);
    let left = wanted.length < 2;
    const timer = setTimeout(() => left || get('search', { text: wanted, limit }).then((page) => left || setFound(page), () => undefined), TYPED_MS);
    return () => { left = true; clearTimeout(timer); };
  }, [wanted]);
  return found;
}

const Row = ({ id, phase, children }) => html`<a class="row" href="#/conversations/${id}">${mark(phase, true)}${children}</a>`;

/** @param {Props.Found} _ */
const Found = ({ list }) => html`<section class="found"><h2>In messages and answers</h2><p class="dim" role="status">${full(list.detail)}</p>
  ${list.found.length > 0 && html`<${Rows} rows=${list.found} label="Found messages" id=${(one) => one.message_id} draw=${(one) => html`<${Row} id=${one.conversation_id} phase=${one.phase}>
    <span class="what"><span>${short(one.excerpt, 240)}</span><span class="dim">
      ${short(one.sender, 40)}${one.place === 'answer' && ', in the answer'}, ${short(one.conversation, 60)}</span></span>
    <span class="side">${when(one.received_at)}</span><//>`} />`}</section>`;

/** @param {Api.ActiveConversation} one */
const conversationRow = (one) => html`<${Row} id=${one.conversation_id} phase=${one.phase}>
  <span class="what"><strong>${short(one.key, 80)}</strong><span class="dim">${short(one.line, 200)}</span></span>
  <span class="side">${one.open_requests > 0 && html`<${Badge} tone="asks">asks ${one.open_requests}<//>`}
    ${one.channel !== 'local' && html`<${Badge}>${line(one.channel, 24)}<//>`}${when(one.active_at)}</span><//>`;

function List() {
  const { rows, error, reload } = useConversations();
  const [sought, setSought] = useState('');
  const [phase, setPhase] = useState('');
  const search = useRef(null);
  const wanted = sought.trim().toLowerCase();
  const found = useFound(wanted);
  useKeys('Conversations', [{ key: '/', what: 'search', run: () => search.current.focus() }]);
  const shown = useMemo(() => (rows ?? []).filter((one) => (!phase || one.phase === phase)
    && (!wanted || [one.key, one.line, one.channel, one.workdir].some((text) => text.toLowerCase().includes(wanted)))), [rows, wanted, phase]);
  const counts = useMemo(() => Object.fromEntries(PHASES.map((name) => [name, rows?.filter((one) => one.phase === name).length])), [rows]);
  const showAll = () => {
    setSought('');
    setPhase('');
  };

  return html`
    <${Head} title="Conversations"><${Composer} /><//>
    <div class="filters">
      <input ref=${search} type="search" placeholder="Search" aria-label="Search conversations" value=${sought} onInput=${typed(setSought)} />
      <div class="chips" role="group" aria-label="Where they are">${PHASES.filter((name) => counts[name] || phase === name).map((name) => html`
        <button class="chip" aria-pressed=${phase === name} onClick=${() => setPhase(phase === name ? '' : name)}>
          ${mark(name)} <span class="dim">${counts[name]}</span></button>`)}</div></div>
    <${Problem} error=${error} what="conversations" again=${reload} />
    ${!rows && !error && html`<${Loading} />`}
    ${rows?.length === 0 ? html`<${Empty} title="No conversations yet"><p>Send a message above, or from a terminal:</p>
        <pre class="code">codex-bridge send 'Write a limerick about fsync into poem.txt'</pre><//>`
      : shown.length > 0 ? html`<${Rows} rows=${shown} label="Conversations" id=${(one) => one.conversation_id} draw=${conversationRow} />`
        : rows && !found?.found.length && html`<${Empty} title="Nothing fits"><p>Look for less, or <button class="link" onClick=${showAll}>show all</button>.</p><//>`}
    ${found && html`<${Found} list=${found} />`}`;
}

// Ctrl-K: from anywhere to a screen, a conversation or an act.

export function Palette({ acts, onClose }) {
  const [sought, setSought] = useState('');
  const [at, setAt] = useState(0);
  const { value } = useRows(() => everything('conversations', 'conversations'), []);
  const words = sought.toLowerCase().split(/\s+/);
  const found = useFound(sought.trim(), 8);
  const to = (id) => () => goTo(`conversations/${id}`);
  const known = [...acts.map(([name, run]) => ({ name, about: '', run })),
    ...(value ?? []).map((one) => ({ name: one.key, about: one.line, run: to(one.conversation_id) }))];
  const options = [...known.filter(({ name, about }) => words.every((word) => `${name} ${about}`.toLowerCase().includes(word))).slice(0, SHOWN_MAX),
    ...(found?.found ?? []).map((one) => ({ name: one.conversation, about: one.excerpt, run: to(one.conversation_id) }))];
  const current = Math.min(at, options.length - 1);
  const go = (option) => {
    onClose();
    option?.run();
  };
  const onKeyDown = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) setAt((current + by + options.length) % options.length || 0);
    else if (event.key === 'Enter') go(options[current]);
    if (by || event.key === 'Enter') event.preventDefault();
  };
  useEffect(() => document.getElementById(`go-${current}`)?.scrollIntoView({ block: 'nearest' }), [current]);
  return html`<${Dialog} title="Go to" wide bare onClose=${onClose}>
    <input role="combobox" aria-label="Go to" aria-expanded="true" aria-controls="go-list" aria-autocomplete="list" aria-activedescendant=${current >= 0 ? `go-${current}` : undefined}
      autofocus autocomplete="off" spellcheck=${false} placeholder="Screen, conversation, words of a message" value=${sought} onKeyDown=${onKeyDown}
      onInput=${typed((next) => { setSought(next); setAt(0); })} />
    <ul id="go-list" class="options" role="listbox" aria-label="Where to">${options.map((option, index) => html`<li key=${index} id="go-${index}" role="option" aria-selected=${index === current}
      onClick=${() => go(option)}>${short(option.name, 80)} <span class="dim">${short(option.about)}</span></li>`)}</ul>
    <p class="dim" role="status">${counted(options.length, 'place')}</p><//>`;
}

// One conversation: what was said, what Codex does now, and where one goes on.

// Markdown of answers, as vnodes: there is no way from here to HTML. Tables are left as text.

/** A longer answer is shown as plain text: it was hardly written to be read. */
const MARKDOWN_MAX_CHARS = 200_000;
const NESTED_MAX = 6;

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^(#{1,6})\s+(.+?)\s*#*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}>\s?/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(?=\S)([\s\S]{1,2000}?\S)\*\*|(?<![\w*])\*(?=\S)([^*\n]{1,1000}?\S)\*(?![\w*])|\[([^\]\n]{1,500})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>()"'`\]]{1,2000})/g;

function Markdown({ text }) {
  const shown = visible(text);
  if (shown.length > MARKDOWN_MAX_CHARS) return html`<pre class="plain-text" tabindex="0">${shown}</pre>`;
  return html`<div class="markdown" dir="auto">${blocks(shown.split('\n'), 0)}</div>`;
}

function blocks(lines, depth) {
  const out = [];
  for (let at = 0; at < lines.length;) {
    const [block, next] = lines[at].trim() ? block_(lines, at, depth) : [null, at + 1];
    out.push(block);
    at = next;
  }
  return out;
}

/** @returns {[Child, number]} */
function block_(lines, at, depth) {
  const line = lines[at];
  const nests = depth < NESTED_MAX;
  const [, fence] = FENCE.exec(line) ?? [];
  if (fence) {
    const end = until(lines, at + 1, (one) => one.trimStart().startsWith(fence));
    return [html`<pre class="code" tabindex="0"><code>${lines.slice(at + 1, end).join('\n')}</code></pre>`, end + 1];
  }
  const heading = HEADING.exec(line);
  if (heading) return [html`<p class="heading">${inline(heading[2])}</p>`, at + 1];
  if (RULE.test(line)) return [html`<hr />`, at + 1];
  if (nests && QUOTE.test(line)) {
    const end = until(lines, at, (one) => !QUOTE.test(one));
    return [html`<blockquote>${blocks(lines.slice(at, end).map((one) => one.replace(QUOTE, '')), depth + 1)}</blockquote>`, end];
  }
  if (nests && ITEM.test(line)) return list(lines, at, depth);
  const end = until(lines, at + 1, (one) => !one.trim() || [FENCE, HEADING, ITEM, QUOTE].some((start) => start.test(one)));
  return [html`<p>${inline(lines.slice(at, end).join('\n'))}</p>`, end];
}

function until(lines, from, stops) {
  let end = from;
  while (end < lines.length && !stops(lines[end])) end += 1;
  return end;
}

/** @returns {[Child, number]} */
function list(lines, at, depth) {
  const [, indent = '', mark = ''] = lines[at].match(ITEM) ?? [];
  const ordered = /\d/.test(mark);
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const line = lines[end];
    const next = lines[end + 1] ?? '';
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent.length) {
      if (/\d/.test(item[2]) !== ordered) break;
      items.push([item[3]]);
    } else if (line.trim() ? /^\s/.test(line) : ITEM.test(next) || /^\s{2,}\S/.test(next)) {
      items.at(-1).push(line.slice(Math.min(indent.length + 2, line.length - line.trimStart().length)));
    } else break;
  }
  const shown = items.map((item) => html`<li>${item.length > 1 ? blocks(item, depth + 1) : inline(item[0])}</li>`);
  return [ordered ? html`<ol start=${parseInt(mark, 10)}>${shown}</ol>` : html`<ul>${shown}</ul>`, end];
}

/** @returns {Child[]} */
function inline(text) {
  const out = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, , verbatim, strong, emphasis, label = '', target = '', bare] = found;
    out.push(text.slice(from, found.index));
    from = found.index + whole.length;
    if (verbatim !== undefined) out.push(html`<code>${verbatim.trim()}</code>`);
    else if (strong !== undefined) out.push(html`<strong>${inline(strong)}</strong>`);
    else if (emphasis !== undefined) out.push(html`<em>${emphasis}</em>`);
    else out.push(bare ? link(bare, bare, bare) : link(target, label, whole));
  }
  out.push(text.slice(from));
  return out;
}

/** A link shows where it leads when its label does not: a label can say anything. */
function link(target, label, otherwise) {
  const url = URL.canParse(target) ? new URL(target) : null;
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.username) return otherwise;
  return html`<a href=${url.href} target="_blank" rel="noopener noreferrer nofollow">${label === target ? label : `${label} (${url.host})`}</a>`;
}

function useLooked() {
  const [looked, setLooked] = useState(!document.hidden);
  useListener('visibilitychange', () => setLooked(!document.hidden), document);
  return looked;
}

/** @type {Live} */
const NOT_YET = { items: [], text: '', diff: '', output: '', message: null };

function useLive(id, wanted) {
  const [live, setLive] = useState(NOT_YET);
  const looked = useLooked();
  useEffect(() => {
    if (!wanted || !looked) return;
    const abort = new AbortController();
    const newest = { ...live };
    let drawn = 0;
    follow(`messages/${id}/events`, {
      signal: abort.signal,
      endsWith: 'end',
      lastId: newest.items.at(-1)?.ordinal.toString(),
      onEvent: ({ name, data }) => {
        if (name === 'state' || name === 'end') newest.message = data;
        else if (name !== 'item') newest[name] = data.text;
        else if (!newest.items.some((item) => item.ordinal === data.ordinal)) newest.items = [...newest.items, data];
        drawn ||= requestAnimationFrame(() => {
          drawn = 0;
          setLive({ ...newest });
        });
      },
    });
    return () => {
      abort.abort();
      cancelAnimationFrame(drawn);
    };
  }, [id, wanted, looked]);
  return live;
}

/** @param {Props.Files} _ */
const Files = ({ files, path }) => files.length > 0 && html`<ul class="files">${files.map((file, at) => html`<li>
  <${Act} tone="plain" act=${async () => save(file.name, await download(`${path}/${at}`))} title=${visible(file.path)}>↓ ${full(file.name)}<//>
  <span class="dim">${bytes(file.bytes)}, ${short(file.media_type, 40)}</span></li>`)}</ul>`;

/** @param {Props.Working} _ */
const Working = ({ live }) => html`<div class="live-work" aria-busy="true">
  ${live.items.length > 0 && html`<${Steps} items=${live.items.slice(-8)} />`}
  ${live.output && html`<${LongText} text=${output(live.output)} label="Output of the command" />`}
  ${live.diff && html`<details open><summary>What changed in files</summary><${LongText} text=${visible(live.diff)} diff label="What changed in files" /></details>`}
  ${live.text && html`<div class="answer streaming"><${Markdown} text=${live.text} /></div>`}</div>`;

/** @param {Props.Message} _ */
function Message({ message: row, session, reload }) {
  const live = useLive(row.message_id, !isOver(row));
  const message = live.message && live.message.updated_at >= row.updated_at ? live.message : row;
  const { message_id: id, answer, channel, conversation } = message;
  const running = !isOver(message);
  const path = `messages/${id}`;
  const stop = () => post(`messages/${id}/cancel`).then((done) => { notify(done.detail); reload(); });
  return html`<article class="message" aria-label="Message ${id.slice(-8)}">
    <header class="meta"><strong>${short(message.sender, 60)}</strong> ${when(message.received_at)}
      ${mark(message.phase)}${message.suspect && html`<${Badge} title="Codex died once while it worked on this">suspect<//>`}
      ${message.attempt > 1 && html`<span class="dim">attempt ${message.attempt}</span>`}
      <a class="right" href="#/messages/${id}">why</a>
      ${running && !message.stop && html`<${Act} tone="plain" act=${stop}>Stop<//>`}</header>
    <div class="said">${message.text.length > 4000 ? html`<${LongText} text=${visible(message.text)} label="The message" />`
      : html`<p class="words" dir="auto">${visible(message.text)}</p>`}<${Files} files=${message.files} path=${`${path}/files`} /></div>
    ${!running && html`<${Later} summary="What Codex did" read=${() => get(path)} draw=${({ events }) => (events.length > 0 ? html`<${Steps} items=${events} />` : 'Nothing but answer.')} />`}
    ${message.requests.filter(isUndecided).map((request) => html`<${Question} key=${request.request_id} session=${session} onDecided=${reload}
      request=${{ ...request, message_id: id, channel, conversation }} />`)}
    ${running && html`<${Working} live=${live} />`}
    ${answer && html`<div class="answer"><${Markdown} text=${answer.text} /><${Files} files=${answer.files} path=${`${path}/answer/files`} />
      <p class="dim">${SOURCE[answer.source]}</p></div>`}
    ${(running || !answer) && html`<p>${full(message.why.now)} <span class="dim">${full(message.why.next)}</span></p>`}
    ${message.followers.length > 0 && html`<p class="dim">${counted(message.followers.length, 'message')} joined its turn.</p>`}
  </article>`;
}


const STEER = 'Codex is told while it works, if its turn still takes it; else its next turn begins with it.';

const TellTask = ({ id, running, reload }) => html`<${Write} label="Tell the task more" verb=${running ? 'Steer' : 'Go on'}
  hint=${running ? STEER : 'A new turn of this task begins with it.'} send=${(text) => steer('tasks', id, text).then(reload)} />`;

/** @param {Props.GoOn} _ */
function GoOn({ story, reload }) {
  const running = story.messages.find((message) => ['starting', 'running'].includes(message.state));
  const mine = story.channel === 'local' && !story.key.startsWith('@');
  const [asMessage, setAsMessage] = useState(false);
  const either = (words, next) => html` <button class="link" onClick=${() => setAsMessage(next)}>${words}</button>`;
  if (story.channel === 'task') return html`<${TellTask} id=${story.key} running=${running} reload=${reload} />`;
  if (running && !(asMessage && mine)) {
    return html`<${Write} label="Tell Codex more" verb="Steer" hint=${html`${STEER} ${mine && either('Send a message of its own instead', true)}`}
      send=${(text) => steer('messages', running.message_id, text).then(reload)} />`;
  }
  if (!mine) return html`<p class="dim">Somebody else’s conversation: you can read it, and steer Codex while it works.</p>`;
  const send = async (text, files, key) => {
    const sent = await sendMessage(story.key, text, files, key);
    notify(sent.duplicate ? 'It was sent before.' : 'It is on disk.');
    reload();
  };
  return html`<${Write} label=${`Message to ${visible(story.key)}`} verb="Send" withFiles send=${send}
    hint=${story.messages.every(isOver) ? 'Codex begins as soon as it can.'
      : html`It waits behind what is there, and joins a running turn that takes it. ${running && either('Steer instead', false)}`} />`;
}

function Conversation({ id, session }) {
  const known = useRef(null);
  const { value: story, error, reload } = useRows(() => get(`conversations/${id}`, { limit: PAGE }), [id], ({ name, data }) => (name === 'state'
    ? data.conversation === known.current?.key && data.channel === known.current?.channel
    : name === 'request' && !!known.current?.messages.some((message) => message.message_id === data.message_id)));
  known.current = story;
  const { all, more } = useOlder(`conversations/${id}`, 'messages', 'message_id', story);
  const bottom = useRef(null);
  const newest = story?.messages[0]?.message_id;
  useEffect(() => bottom.current?.scrollIntoView({ block: 'end' }), [newest]);
  useKeys('Conversation', [
    { key: 'r', what: 'write', run: () => find('.write textarea')?.focus() },
    { key: 'u', what: 'back to all conversations', run: () => goTo('conversations') },
  ]);

  if (!story) return html`<${Loading} error=${error} what="this conversation" again=${reload} />`;
  return html`
    <${Head} title=${short(story.key, 80)}
      sub=${html`<${Badge}>${full(story.channel)}<//> works in <code>${full(story.workdir)}</code>`}>
      <details class="more"><summary>Details</summary><${Facts} rows=${[
        ['Conversation', html`<code>${story.conversation_id}</code>`],
        ['Codex thread', story.thread_id && html`<code>${full(story.thread_id)}</code>`],
        ['Node', story.node && full(story.node)],
        ['In a terminal', html`<code>codex-bridge log ${full(story.key)}</code>`]]} /></details><//>
    <${Problem} error=${error} what="news of it" again=${reload} />
    ${more && html`<${Act} tone="older" act=${more}>Older messages<//>`}
    <div class="messages" role="log" aria-label="Messages">${all.reverse().map((message) => html`
      <${Message} key=${message.message_id} message=${message} session=${session} reload=${reload} />`)}</div>
    <div class="go-on"><${GoOn} story=${story} reload=${reload} /></div><i ref=${bottom}></i>`;
}

function ToConversation({ id }) {
  const [error, setError] = useState(null);
  useEffect(() => {
    const find = async () => {
      const message = await get(`messages/${id}`);
      const { conversations } = await get('conversations', { limit: 500 });
      const found = conversations.find((one) => one.key === message.conversation && one.channel === message.channel);
      location.replace(found ? `#/conversations/${found.conversation_id}` : `#/messages/${id}`);
    };
    find().catch((failed) => setError(asApiError(failed)));
  }, [id]);
  return html`<${Loading} error=${error} what="this message" />`;
}

export function Conversations({ id, sub, session }) {
  if (sub) return html`<${ToConversation} id=${id} />`;
  return id ? html`<${Conversation} id=${id} session=${session} />` : html`<${List} />`;
}

// Tasks: started here with a directory, a model and a sandbox; listed; watched.


function Start({ onClose }) {
  const [terms, setTerms] = useState({ cwd: '', model: '', sandbox: 'read-only', approval_policy: 'on-request' });
  const field = (name) => ({ value: terms[name], onInput: typed((value) => setTerms({ ...terms, [name]: value })) });
  const start = async (prompt, _, key) => {
    const given = Object.fromEntries(Object.entries(terms).filter(([, value]) => value.trim()));
    const { task, duplicate } = await post('tasks', { prompt, ...given }, { 'idempotency-key': key });
    notify(duplicate ? 'It was started before.' : `${task.task_id} is started.`);
    onClose();
    goTo(`tasks/${task.task_id}`);
  };
  return html`<${Dialog} title="Start a task" wide onClose=${onClose}>
    <${Field} label="Directory" placeholder="/home/you/project" ...${field('cwd')} />
    <div class="fields">
      <${Select} label="Sandbox" ...${field('sandbox')} options=${[['read-only', 'read-only: it only reads'], ['workspace-write', 'workspace-write: it may write in the directory']]} />
      <${Select} label="Asks" ...${field('approval_policy')} options=${[['on-request', 'on-request: before it leaves the sandbox'], ['untrusted', 'untrusted: before every command']]} />
      <${Field} label="Model" placeholder="as configured" ...${field('model')} /></div>
    <${Write} label="What is to be done?" verb="Start" rows=${6} send=${start} hint="A task of its own with an id; it outlives the daemon." /><//>`;
}

/** @param {Api.TaskShape} task */
const taskRow = (task) => html`<a class="row" href="#/tasks/${task.task_id}">${mark(task.phase, true)}
  <span class="what"><strong>${short(task.prompt_summary)}</strong>
    <span class="dim"><code>${line(task.task_id, 40)}</code> ${short(task.last_progress_summary ?? task.final_summary ?? task.error_summary)}</span></span>
  <span class="side">${task.pending_requests?.length ? html`<${Badge} tone="asks">asks<//>` : ''}
    ${task.sandbox && html`<${Badge}>${line(task.sandbox, 30)}<//>`}${when(task.updated_at ?? task.created_at)}</span></a>`;

function TaskList() {
  const { value, error, reload } = useRows(() => get('tasks', { limit: PAGE }), [], ({ name, data }) => name === 'request' || (name === 'state' && data.channel === 'task'));
  const { all: tasks, more } = useOlder('tasks', 'tasks', 'task_id', value);
  const [starting, setStarting] = useState(false);
  useNew(setStarting);
  useKeys('Tasks', [{ key: 'n', what: 'start a task', run: () => setStarting(true) }]);
  return html`
    <${Head} title="Tasks"><button class="primary" onClick=${() => setStarting(true)}>Start a task</button><//>
    ${starting && html`<${Start} onClose=${() => setStarting(false)} />`}
    ${!value ? html`<${Loading} error=${error} what="tasks" again=${reload} />` : html`<${Problem} error=${error} what="tasks" again=${reload} />`}
    ${value && tasks.length === 0 && html`<${Empty} title="No tasks yet"><p>A task works in a directory of yours. Start one here, or there:</p>
      <pre class="code">codex-bridge start --sandbox workspace-write 'Make the slow test fast'</pre><//>`}
    ${tasks.length > 0 && html`<${Rows} rows=${tasks} label="Tasks" id=${(task) => task.task_id} draw=${taskRow} />`}
    ${more && html`<${Act} tone="older" act=${more}>Older tasks<//>`}`;
}

function Task({ id, session }) {
  const { value, error, reload } = useRows(async () => {
    const { task } = await get(`tasks/${id}`);
    return { task, messages: await Promise.all(task.message_ids.slice(-20).map((message) => get(`messages/${message}`))) };
  }, [id], ({ name, data }) => (name === 'state' && data.conversation === id) || (name === 'request' && (data.task_id ?? id) === id));
  useKeys('Task', [{ key: 'u', what: 'back to all tasks', run: () => goTo('tasks') }]);
  if (!value) return html`<${Loading} error=${error} what="this task" again=${reload} />`;
  const { task, messages } = value;
  const over = isOver(task);
  const stop = () => post(`tasks/${id}/interrupt`).then((reply) => { notify(reply.message ?? reply.interrupt ?? 'It is asked to stop.'); reload(); });
  const text = (value) => value && full(value);
  return html`
    <${Head} title=${short(task.prompt_summary, 120)} sub=${html`${mark(task.phase)} <code>${line(task.task_id, 60)}</code>`}>
      ${!over && html`<${Act} tone="danger" act=${stop}>Stop<//>`}<//>
    <${Problem} error=${error} what="news of it" again=${reload} />
    <${Facts} rows=${[['Directory', task.cwd && html`<code>${text(task.cwd)}</code>`], ['Sandbox', text(task.sandbox)], ['Asks', text(task.approval_policy)], ['Model', text(task.model)],
      ['Started by', text(task.starter)], ['Tells', text(task.notify_target && `${task.notify_target} ${task.notification_status ?? ''}`)], ['Failed', text(task.error_summary)]]} />
    <div class="messages" role="log" aria-label="Messages">${messages.map((message) => html`
      <${Message} key=${message.message_id} message=${message} session=${session} reload=${reload} />`)}</div>
    <div class="go-on"><${TellTask} id=${id} running=${!over} reload=${reload} /></div>`;
}

export const Tasks = ({ id, session }) => (id ? html`<${Task} id=${id} session=${session} />` : html`<${TaskList} />`);
