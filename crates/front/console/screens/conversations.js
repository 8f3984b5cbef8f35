// @ts-check
/** All conversations, where something happened last first; live, filtered by where they are, searched. */

import { get } from '../lib/api.js';
import { html, typed, useEffect, useMemo, useRef, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { asApiError, useEvents } from '../lib/live.js';
import { When, line } from '../lib/text.js';
import { Badge, Empty, Head, Line, Loading, Phase, Problem, Rows, Text } from '../parts/basics.js';
import { Composer } from '../parts/composer.js';

const FIRST = 50;
const PAGE = 500;
/** Conversations that are listed; older ones are found by the search. */
const LISTED_MAX = 5000;
const CHANGED_EVERY_MS = 100;
const TYPED_MS = 250;
const PHASES = ['working', 'waiting for you', 'queued', 'failed', 'done', 'stopped'];

/** @param {Api.ActiveConversation[]} old @param {Api.ActiveConversation[]} next */
function merged(old, next) {
  const ids = new Set(next.map((one) => one.conversation_id));
  return [...next, ...old.filter((one) => !ids.has(one.conversation_id))]
    .sort((a, b) => b.active_at.localeCompare(a.active_at));
}

/** The list, page by page, and kept as it is while events come. */
function useConversations() {
  const [rows, setRows] = useState(/** @type {Api.ActiveConversation[] | null} */ (null));
  const [error, setError] = useState(/** @type {Failed | null} */ (null));
  const busy = useRef(false);
  const again = useRef(false);

  const refresh = async () => {
    if (busy.current) return void (again.current = true);
    busy.current = true;
    do {
      again.current = false;
      const page = await get('conversations', { limit: FIRST }).catch((failed) => setError(asApiError(failed)));
      if (page) {
        setRows((old) => merged(old ?? [], page.conversations));
        setError(null);
      }
      if (again.current) await new Promise((resolve) => setTimeout(resolve, CHANGED_EVERY_MS));
    } while (again.current);
    busy.current = false;
  };
  useEffect(() => {
    let left = false;
    const all = async () => {
      for (let before = null, read = 0; read < LISTED_MAX && !left; read += PAGE) {
        const page = await get('conversations', { limit: read === 0 ? FIRST : PAGE, before });
        if (left) return;
        setRows((old) => merged(page.conversations, old ?? []));
        setError(null);
        before = page.next;
        if (!before) return;
      }
    };
    all().catch((failed) => setError(asApiError(failed)));
    return () => { left = true; };
  }, []);
  useEvents((event) => void (event.name !== 'item' && refresh()), []);
  return { rows, error, refresh };
}

/** What the daemon finds in what was said and answered; `null` while nothing is looked for. @param {string} wanted */
function useFound(wanted) {
  const [found, setFound] = useState(/** @type {Api.SearchList | null} */ (null));
  useEffect(() => {
    setFound(null);
    if (wanted.length < 2) return;
    let left = false;
    const timer = setTimeout(() => {
      get('search', { text: wanted, limit: 50 }).then((page) => left || setFound(page), () => undefined);
    }, TYPED_MS);
    return () => { left = true; clearTimeout(timer); };
  }, [wanted]);
  return found;
}

/** @param {Props.Found} _ */
const Found = ({ list }) => html`<section class="found"><h2>In messages and answers</h2><p class="dim" role="status"><${Text} text=${list.detail} /></p>
  ${list.found.length > 0 && html`<div class="rows" role="list" aria-label="Found messages">${list.found.map((one) => html`<div key=${one.message_id} role="listitem">
    <a class="row conversation" href="#/conversations/${encodeURIComponent(one.conversation_id)}"><span class="where">
      <${Phase} phase=${one.phase} quiet /></span>
      <span class="what"><span><${Line} text=${one.excerpt} length=${240} /></span><span class="dim">
        <${Line} text=${one.sender} length=${40} />${one.place === 'answer' && ', in the answer'}, <${Line} text=${one.conversation} length=${60} /></span></span>
      <span class="side"><${When} at=${one.received_at} /></span></a></div>`)}</div>`}</section>`;

/** @param {Api.ActiveConversation} one @param {string} wanted */
const fits = (one, wanted) => [one.key, one.line, one.channel, one.workdir].some((text) => text.toLowerCase().includes(wanted));

/** @param {Props.ConversationsRow} _ */
const Row = ({ one }) => html`<a class="row conversation" href="#/conversations/${encodeURIComponent(one.conversation_id)}">
  <span class="where"><${Phase} phase=${one.phase} quiet /></span>
  <span class="what"><strong><${Line} text=${one.key} length=${80} /></strong>
    <span class="dim"><${Line} text=${one.line} length=${200} /></span></span>
  <span class="side">${one.open_requests > 0 && html`<${Badge} tone="asks">asks ${one.open_requests}<//>`}
    ${one.channel !== 'local' && html`<${Badge}>${line(one.channel, 24)}<//>`}
    <${When} at=${one.active_at} /></span>
</a>`;

export function Screen() {
  const { rows, error, refresh } = useConversations();
  const [sought, setSought] = useState('');
  const [phase, setPhase] = useState('');
  const search = useRef(/** @type {HTMLInputElement | null} */ (null));
  const wanted = sought.trim().toLowerCase();
  const found = useFound(wanted);
  useKeys('Conversations', [{ key: '/', what: 'search', run: () => search.current?.focus() }]);

  const shown = useMemo(() => {
    return (rows ?? []).filter((one) => (!wanted || fits(one, wanted)) && (!phase || one.phase === phase));
  }, [rows, wanted, phase]);
  const counts = useMemo(() => Object.fromEntries(PHASES.map((name) => [name, rows?.filter((one) => one.phase === name).length ?? 0])), [rows]);

  return html`
    <${Head} title="Conversations"><${Composer} /><//>
    <div class="filters">
      <input ref=${search} type="search" placeholder="Search" aria-label="Search conversations" value=${sought}
        onInput=${typed(setSought)} />
      <div class="chips" role="group" aria-label="Where they are">
        ${PHASES.filter((name) => counts[name] || phase === name).map((name) => html`
          <button class="chip" aria-pressed=${phase === name} onClick=${() => setPhase(phase === name ? '' : name)}>
            <${Phase} phase=${name} /> <span class="dim">${counts[name]}</span></button>`)}
      </div>
    </div>
    ${error && html`<${Problem} error=${error} what="conversations" again=${refresh} />`}
    ${!rows && !error && html`<${Loading} />`}
    ${rows && shown.length === 0 && !found?.found.length && (rows.length === 0
      ? html`<${Empty} title="No conversations yet"><p>Send a message above, or from a terminal:</p>
          <pre class="code">codex-bridge send 'Write a limerick about fsync into poem.txt'</pre><//>`
      : html`<${Empty} title="Nothing fits">
        <p>Look for less, or <button class="link" onClick=${() => { setSought(''); setPhase(''); }}>show all</button>.</p><//>`)}
    ${shown.length > 0 && html`<${Rows} rows=${shown} height=${57} label="Conversations"
      id=${(one) => one.conversation_id} draw=${(one) => html`<${Row} one=${one} />`} />`}
    ${found && html`<${Found} list=${found} />`}`;
}
