// @ts-check
/** The page: session, routes, frame. */

import { get, onSignedOut, signIn, takeLoginCode, whoAmI } from './lib/api.js';
import { html, render, useEffect, useErrorBoundary, useState } from './lib/html.js';
import { Notices, allBindings, startKeys, useKeys } from './lib/keys.js';
import { asApiError, startLive, stopLive, useConnected, useRows } from './lib/live.js';
import { Dialog, Empty, Loading, Text } from './parts/basics.js';
import { Navigation } from './parts/navigation.js';

/** Screens are loaded when they are first opened. @type {Entry[]} */
const ENTRIES = [
  { path: 'requests', key: 'i', name: 'Inbox', count: 'requests', load: () => import('./screens/requests.js') },
  { path: 'conversations', key: 'c', name: 'Conversations', load: (id) => (id ? import('./screens/conversation.js') : import('./screens/conversations.js')) },
  { path: 'tasks', key: 't', name: 'Tasks', load: () => import('./screens/tasks.js') },
  { path: 'dead', key: 'f', name: 'Failed', count: 'failed', load: () => import('./screens/dead.js') },
  { path: 'health', key: 'h', name: 'Health', load: () => import('./screens/health.js') },
  { path: 'figures', key: 'n', name: 'Figures', load: () => import('./screens/figures.js') },
  { path: 'access', key: 'a', name: 'Access', load: () => import('./screens/access.js') },
  { path: 'policy', key: 'r', name: 'Rules', load: () => import('./screens/policy.js') },
  { path: 'audit', key: 'u', name: 'Audit', load: () => import('./screens/audit.js') },
];
/** A message has no entry: lists lead to it. @type {Entry} */
const MESSAGE = { path: 'messages', key: '', name: 'Message', load: (_, sub) => (sub === 'conversation' ? import('./screens/conversation.js') : import('./screens/why.js')) };

function readRoute() {
  const [path = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return path.split('/').map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
}

/** @param {string} path */
const entryOf = (path) => (path === 'messages' ? MESSAGE : ENTRIES.find((one) => one.path === path) ?? ENTRIES[0] ?? MESSAGE);

function useRoute() {
  const [route, setRoute] = useState(readRoute);
  useEffect(() => {
    const change = () => {
      setRoute(readRoute());
      // The heading is where a screen reader goes on, and the keyboard.
      setTimeout(() => /** @type {HTMLElement | null} */ (document.querySelector('main h1'))?.focus({ preventScroll: true }), 50);
      scrollTo(0, 0);
    };
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  return route;
}

/** What the frame counts: questions and failures, at every moment. */
function useCounts() {
  const { value } = useRows(() => get('status'), [], (event) => event.name !== 'item');
  const requests = value?.requests_waiting ?? 0;
  useEffect(() => { document.title = requests > 0 ? `(${requests}) codex-bridge` : 'codex-bridge'; }, [requests]);
  return { requests, failed: value?.summary.dead ?? 0, ready: value?.health.ready ?? true };
}

/** @param {Props.Keys} _ */
const Keys = ({ onClose }) => html`<${Dialog} title="Keys" wide onClose=${onClose}><div class="keys">${allBindings().map((group) => html`<section>
  <h3>${group.title}</h3>
  <dl>${group.bindings.map((binding) => html`<div><dt>${binding.key.split(' ').map((key) => html`<kbd>${key}</kbd>`)}</dt>
    <dd>${binding.what}</dd></div>`)}</dl></section>`)}</div><//>`;

/** @param {Props.SignedOut} _ */
const SignedOut = ({ reason }) => html`<main class="signed-out"><${Empty} title="Not signed in">
  ${reason && html`<p><${Text} text=${reason} /></p>`}
  <p>In a terminal on the machine of the daemon:</p><pre class="code">codex-bridge console</pre>
  <p class="dim">It opens this page with a code that works once. For a phone: <code>codex-bridge console --phone</code></p><//></main>`;

/** One screen that breaks, or can't be loaded, does not take the others along. @param {Props.Screen} _ */
function Screen({ entry, id, sub, session }) {
  const [shown, setShown] = useState(/** @type {{ screen: unknown } | null} */ (null));
  const [missing, setMissing] = useState('');
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  useEffect(() => { entry.load(id, sub).then((module) => setShown({ screen: module.Screen }), (failed) => setMissing(String(failed))); }, []);
  if (missing) return html`<${Empty} title="This screen can’t be loaded"><p>The daemon is away, or another version than this page.</p>
    <button onClick=${() => location.reload()}>Load the page again</button><//>`;
  if (error) return html`<${Empty} title="This screen broke"><p><${Text} text=${String(error)} /></p><button onClick=${reset}>Show it again</button><//>`;
  return shown ? html`<${shown.screen} id=${id} sub=${sub} session=${session} />` : html`<${Loading} />`;
}

/** @param {Props.Frame} _ */
function Frame({ session }) {
  const [path = '', id = '', sub = ''] = useRoute();
  const [keys, setKeys] = useState(false);
  const connected = useConnected();
  const counts = useCounts();
  useEffect(() => { startLive(); return stopLive; }, []);
  useKeys('Everywhere', [{ key: '?', what: 'these keys', run: () => setKeys(true) },
    ...ENTRIES.map((entry) => ({ key: `g ${entry.key}`, what: `go to ${entry.name}`, run: () => { location.hash = `#/${entry.path}`; } }))]);
  const entry = entryOf(path);
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>To the content</a>
    <${Navigation} entries=${ENTRIES} counts=${counts} here=${entry === MESSAGE ? 'conversations' : entry.path} showKeys=${() => setKeys(true)} />
    <main id="main" tabindex="-1">
      <div role="status" aria-live="polite">${!connected && html`<p class="offline">
        <i class="dot" aria-hidden="true"></i> The connection is lost; trying again. What you see may be old.</p>`}</div>
      <${Screen} key=${`${path}/${id}/${sub}`} entry=${entry} id=${id} sub=${sub} session=${session} /></main>
    ${keys && html`<${Keys} onClose=${() => setKeys(false)} />`}<${Notices} />`;
}

function App() {
  const [state, setState] = useState(/** @type {{ session: Session | null, out: string | null } | null} */ (null));
  useEffect(() => {
    const code = takeLoginCode();
    // The screen comes while the daemon says who this is.
    const [path = '', id = '', sub = ''] = readRoute();
    entryOf(path).load(id, sub).catch(() => undefined);
    const begin = code ? signIn(code) : whoAmI();
    begin.then((session) => setState({ session, out: null }), (problem) => {
      const error = asApiError(problem);
      if (code) setState({ session: null, out: error.message });
      else if (error.status === 401) setState({ session: null, out: '' });
      // A daemon that is away comes back: the frame says so, and tries again.
      else setState({ session: null, out: null });
    });
    return onSignedOut(() => setState((old) => old && { ...old, out: old.out ?? 'The session ended: it was revoked, or not used for a week.' }));
  }, []);
  if (!state) return null;
  if (state.out !== null) return html`<${SignedOut} reason=${state.out} />`;
  return html`<${Frame} session=${state.session} />`;
}

startKeys();
render(html`<${App} />`, /** @type {Element} */ (document.getElementById('app')));
