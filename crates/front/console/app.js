// @ts-check
/** The page: session, routes, frame. */

import { asApiError, get, onSignedOut, signIn, startLive, stopLive, takeLoginCode, useConnected, useRows } from './lib/daemon.js';
import { html, render, useEffect, useErrorBoundary, useState } from './lib/html.js';
import { allBindings, complain, Dialog, Empty, full, Loading, Notices, useKeys } from './lib/ui.js';

/** `file` exports the screen by its name; `icon` is a path of 24 by 24. @type {Entry[]} */
const ENTRIES = [
  { path: 'requests', key: 'i', name: 'Inbox', file: 'inbox', count: 'requests', icon: 'M4 13l3-8h10l3 8v6H4zM4 13h5a3 3 0 0 0 6 0h5' },
  { path: 'conversations', key: 'c', name: 'Conversations', file: 'conversations', icon: 'M4 5h16v11H10l-5 4v-4H4z' },
  { path: 'tasks', key: 't', name: 'Tasks', file: 'conversations', icon: 'M9 6h11M9 12h11M9 18h11M4 6l1 1 2-2M4 12l1 1 2-2M4 18l1 1 2-2' },
  { path: 'dead', key: 'f', name: 'Failed', file: 'inbox', count: 'failed', icon: 'M12 4l9 16H3zM12 10v4M12 17v.5' },
  { path: 'health', key: 'h', name: 'Health', file: 'admin', icon: 'M3 12h4l2-6 4 12 2-6h6' },
  { path: 'figures', key: 'n', name: 'Figures', file: 'admin', icon: 'M5 20V10M12 20V4M19 20v-7' },
  { path: 'access', key: 'a', name: 'Access', file: 'admin', icon: 'M14 10a4 4 0 1 1-3.5-4M12 11l8 8M17 16l2-2' },
  { path: 'policy', key: 'r', name: 'Rules', file: 'admin', icon: 'M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6zM9 12l2 2 4-4' },
  { path: 'audit', key: 'u', name: 'Audit', file: 'admin', icon: 'M6 3h9l4 4v14H6zM9 11h7M9 15h7' },
];
/** A message has no entry: lists lead to it. @type {Entry} */
const WHY = { path: 'messages', key: '', name: 'Why', file: 'inbox', icon: '' };
const MORE = 'M5 12h.5M12 12h.5M19 12h.5';
const FIRST = 4;
const PHONE = matchMedia('(max-width: 760px)');

/** Screen, id, what of it; each fit to be one part of a path. */
const readRoute = () => location.hash.replace(/^#\/?|\?.*/g, '').split('/').map((part) => encodeURIComponent(part).replace(/%25/g, '%'));

/** @param {string[]} route @returns {Entry} */
function entryOf([path, , sub]) {
  if (path === 'messages') return sub ? entryOf(['conversations']) : WHY;
  return ENTRIES.find((one) => one.path === path) ?? /** @type {Entry} */ (ENTRIES[0]);
}
const load = (entry) => import(`./screens/${entry.file}.js`);

function useRoute() {
  const [route, setRoute] = useState(readRoute);
  useEffect(() => {
    const change = () => {
      setRoute(readRoute());
      // Where a screen reader goes on.
      setTimeout(() => /** @type {HTMLElement | null} */ (document.querySelector('main h1'))?.focus({ preventScroll: true }), 50);
      scrollTo(0, 0);
    };
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  return route;
}

const Icon = ({ path }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${path} /></svg>`;

function Navigation({ here, showKeys }) {
  const [phone, setPhone] = useState(PHONE.matches);
  const [open, setOpen] = useState(false);
  const { value } = useRows(() => get('status'), [], (event) => event.name !== 'item');
  const counts = { requests: value?.requests_waiting ?? 0, failed: value?.summary.dead ?? 0 };
  useEffect(() => {
    PHONE.onchange = () => setPhone(PHONE.matches);
    const close = () => setOpen(false);
    addEventListener('hashchange', close);
    return () => removeEventListener('hashchange', close);
  }, []);
  useEffect(() => { document.title = counts.requests > 0 ? `(${counts.requests}) codex-bridge` : 'codex-bridge'; }, [counts.requests]);
  /** @param {Entry} entry */
  const link = ({ path, name, count, icon }) => html`<li key=${path}>
    <a href="#/${path}" aria-current=${here === path ? 'page' : undefined}><${Icon} path=${icon} /><span>${name}</span>
      ${count && counts[count] > 0 && html`<b class="count ${count}"><span class="spoken">, </span>${counts[count]}</b>`}</a></li>`;
  return html`<nav aria-label="Screens"><p class="brand">codex-bridge</p>
    <ul>${ENTRIES.slice(0, FIRST).map(link)}</ul>
    <div class="rest">
      ${phone && html`<button class="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}><${Icon} path=${MORE} /><span>More</span></button>`}
      ${(!phone || open) && html`<ul>${ENTRIES.slice(FIRST).map(link)}</ul>`}</div>
    <button class="plain keys-button" onClick=${showKeys}><kbd>?</kbd> Keys</button></nav>`;
}

const Keys = ({ onClose }) => html`<${Dialog} title="Keys" wide onClose=${onClose}><div class="keys">${allBindings().map((group) => html`<section>
  <h3>${group.title}</h3>
  <dl>${group.bindings.map((binding) => html`<div><dt>${binding.key.split(' ').map((key) => html`<kbd>${key}</kbd>`)}</dt>
    <dd>${binding.what}</dd></div>`)}</dl></section>`)}</div><//>`;

const SignedOut = ({ reason }) => html`<main class="signed-out"><${Empty} title="Not signed in">
  ${reason && html`<p>${full(reason)}</p>`}
  <p>In a terminal on the machine of the daemon:</p><pre class="code">codex-bridge console</pre>
  <p class="dim">It opens this page with a code that works once. For a phone: <code>codex-bridge console --phone</code></p><//></main>`;

function Screen({ entry, id, sub, session }) {
  const [shown, setShown] = useState(null);
  const [missing, setMissing] = useState(false);
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  useEffect(() => { load(entry).then((module) => setShown({ screen: module[entry.name] }), () => setMissing(true)); }, []);
  if (missing) return html`<${Empty} title="This screen can’t be loaded"><p>The daemon is away, or another version than this page.</p>
    <button onClick=${() => location.reload()}>Load the page again</button><//>`;
  if (error) return html`<${Empty} title="This screen broke"><p>${full(String(error))}</p><button onClick=${reset}>Show it again</button><//>`;
  return shown ? html`<${shown.screen} id=${id} sub=${sub} session=${session} />` : html`<${Loading} />`;
}

function Frame({ session }) {
  const route = useRoute();
  const [, id, sub] = route;
  const [keys, setKeys] = useState(false);
  const [palette, setPalette] = useState(null);
  const connected = useConnected();
  const showKeys = () => setKeys(true);
  const to = (path) => () => { location.hash = `#/${path}`; };
  useEffect(() => {
    startLive();
    const onKey = (event) => {
      if (event.key !== 'k' || event.ctrlKey === event.metaKey) return;
      event.preventDefault();
      if (!document.querySelector('dialog[open]')) load({ file: 'conversations' }).then((module) => setPalette({ draw: module.Palette }), complain);
    };
    addEventListener('keydown', onKey);
    return () => {
      stopLive();
      removeEventListener('keydown', onKey);
    };
  }, []);
  useKeys('Everywhere', [{ key: '?', what: 'these keys', run: showKeys }, { key: 'Ctrl+K', what: 'go to a screen, a conversation, a message', run: () => {} },
    ...ENTRIES.map(({ key, name, path }) => ({ key: `g ${key}`, what: `go to ${name}`, run: to(path) }))]);
  const entry = entryOf(route);
  const acts = [...ENTRIES.map(({ name, path }) => [name, to(path)]), ['New message', to('conversations?new')], ['Start a task', to('tasks?new')], ['Keys', showKeys]];
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>To the content</a>
    <${Navigation} here=${entry === WHY ? 'conversations' : entry.path} showKeys=${showKeys} />
    <main id="main" tabindex="-1">
      <div role="status" aria-live="polite">${!connected && html`<p class="offline">
        <i class="dot" aria-hidden="true"></i> The connection is lost; trying again. What you see may be old.</p>`}</div>
      <${Screen} key=${route.join('/')} entry=${entry} id=${id} sub=${sub} session=${session} /></main>
    ${keys && html`<${Keys} onClose=${() => setKeys(false)} />`}<${Notices} />
    ${palette && html`<${palette.draw} acts=${acts} onClose=${() => setPalette(null)} />`}`;
}

function App() {
  const [state, setState] = useState(null);
  useEffect(() => {
    const code = takeLoginCode();
    // The screen comes while the daemon says who this is.
    load(entryOf(readRoute())).catch(() => undefined);
    (code ? signIn(code) : get('session')).then((session) => setState({ session, out: null }), (problem) => {
      const error = asApiError(problem);
      // A daemon that is away comes back: the frame says so, and tries again.
      setState({ session: null, out: code ? error.message : error.status === 401 ? '' : null });
    });
    return onSignedOut(() => setState((old) => old && { ...old, out: old.out ?? 'The session ended: it was revoked, or not used for a week.' }));
  }, []);
  if (!state) return null;
  return state.out === null ? html`<${Frame} session=${state.session} />` : html`<${SignedOut} reason=${state.out} />`;
}

render(html`<${App} />`, /** @type {Element} */ (document.getElementById('app')));
