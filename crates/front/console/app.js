// @ts-check
/** The page: session, routes, frame. */

import { get, onSignedOut, signIn, whoAmI } from './lib/api.js';
import { html, render, useEffect, useErrorBoundary, useState } from './lib/html.js';
import { allBindings, startKeys, useKeys } from './lib/keys.js';
import { startLive, stopLive, useConnected } from './lib/live.js';
import { asApiError, useRows } from './lib/load.js';
import { Notices } from './lib/notices.js';
import { takeLoginCode } from './lib/session.js';
import { Dialog, Empty, Text } from './parts/basics.js';
import { Navigation } from './parts/navigation.js';
import { Access } from './screens/access.js';
import { Audit } from './screens/audit.js';
import { Conversation, ToConversation } from './screens/conversation.js';
import { Conversations } from './screens/conversations.js';
import { DeadLetters } from './screens/dead.js';
import { Figures } from './screens/figures.js';
import { Health } from './screens/health.js';
import { Policy } from './screens/policy.js';
import { OneRequest, Requests } from './screens/requests.js';
import { Task, Tasks } from './screens/tasks.js';
import { Why } from './screens/why.js';

/** @typedef {import('../console-types/ui').Session} Session */
/** @typedef {import('../console-types/ui').Child} Child */
/** @typedef {{ session: Session | null, id: string }} ScreenProps */
/** @typedef {import('./parts/navigation.js').Entry & { screen: (props: ScreenProps) => Child }} Entry */

/** @type {Entry[]} */
const ENTRIES = [
  { path: 'requests', key: 'i', name: 'Inbox', count: 'requests', screen: ({ session, id }) => (id ? html`<${OneRequest} key=${id} id=${id} session=${session} />` : html`<${Requests} session=${session} />`) },
  { path: 'conversations', key: 'c', name: 'Conversations', screen: ({ session, id }) => (id ? html`<${Conversation} key=${id} id=${id} session=${session} />` : html`<${Conversations} />`) },
  { path: 'tasks', key: 't', name: 'Tasks', screen: ({ session, id }) => (id ? html`<${Task} key=${id} id=${id} session=${session} />` : html`<${Tasks} />`) },
  { path: 'dead', key: 'f', name: 'Failed', count: 'failed', screen: () => html`<${DeadLetters} />` },
  { path: 'health', key: 'h', name: 'Health', screen: () => html`<${Health} />` },
  { path: 'figures', key: 'n', name: 'Figures', screen: () => html`<${Figures} />` },
  { path: 'access', key: 'a', name: 'Access', screen: ({ session }) => html`<${Access} session=${session} />` },
  { path: 'policy', key: 'r', name: 'Rules', screen: () => html`<${Policy} />` },
  { path: 'audit', key: 'u', name: 'Audit', screen: () => html`<${Audit} />` },
];

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

/** @param {{ onClose: () => void }} props */
const Keys = ({ onClose }) => html`<${Dialog} title="Keys" wide onClose=${onClose}><div class="keys">${allBindings().map((group) => html`<section><h3>${group.title}</h3>
  <dl>${group.bindings.map((binding) => html`<div><dt>${binding.key.split(' ').map((key) => html`<kbd>${key}</kbd>`)}</dt><dd>${binding.what}</dd></div>`)}</dl></section>`)}</div></${Dialog}>`;

/** @param {{ reason: string }} props */
const SignedOut = ({ reason }) => html`<main class="signed-out"><${Empty} title="Not signed in">
  ${reason && html`<p><${Text} text=${reason} /></p>`}
  <p>In a terminal on the machine of the daemon:</p><pre class="code">codex-bridge console</pre>
  <p class="dim">It opens this page with a code that works once. For a phone: <code>codex-bridge console --phone</code></p></${Empty}></main>`;

/** One screen that breaks does not take the others along. @param {{ children?: Child }} props */
function Screen({ children }) {
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  if (!error) return children;
  return html`<${Empty} title="This screen broke"><p><${Text} text=${String(error)} /></p><button onClick=${reset}>Show it again</button></${Empty}>`;
}

/** @param {{ session: Session | null }} props */
function Frame({ session }) {
  const [path = '', id = '', sub = ''] = useRoute();
  const [keys, setKeys] = useState(false);
  const connected = useConnected();
  const counts = useCounts();
  useEffect(() => { startLive(); return stopLive; }, []);
  useKeys('Everywhere', [{ key: '?', what: 'these keys', run: () => setKeys(true) },
    ...ENTRIES.map((entry) => ({ key: `g ${entry.key}`, what: `go to ${entry.name}`, run: () => { location.hash = `#/${entry.path}`; } }))]);
  const entry = ENTRIES.find((one) => one.path === path);
  const here = path === 'messages' ? 'conversations' : entry?.path ?? 'requests';
  const screen = path === 'messages' ? (sub === 'conversation' ? html`<${ToConversation} id=${id} />` : html`<${Why} key=${id} id=${id} session=${session} />`) : (entry ?? ENTRIES[0])?.screen({ session, id });
  return html`<a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>To the content</a>
    <${Navigation} entries=${ENTRIES} counts=${counts} here=${here} showKeys=${() => setKeys(true)} />
    <main id="main" tabindex="-1">
      <div role="status" aria-live="polite">${!connected && html`<p class="offline"><i class="dot" aria-hidden="true"></i> The connection is lost; trying again. What you see may be old.</p>`}</div>
      <${Screen} key=${`${path}/${id}/${sub}`}>${screen}</${Screen}></main>
    ${keys && html`<${Keys} onClose=${() => setKeys(false)} />`}<${Notices} />`;
}

function App() {
  const [state, setState] = useState(/** @type {{ session: Session | null, out: string | null } | null} */ (null));
  useEffect(() => {
    const code = takeLoginCode();
    const begin = code ? signIn(code) : whoAmI();
    begin.then((session) => setState({ session, out: null }), (problem) => {
      const error = asApiError(problem);
      if (code) setState({ session: null, out: `${error.message}. A code works once, for five minutes.` });
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
