// @ts-check
/** The inbox: everything that Codex asks, what is due first on top. */

import { everything, get } from '../lib/api.js';
import { html, useEffect, useRef, useState } from '../lib/html.js';
import { notify, useKeys } from '../lib/keys.js';
import { useRows } from '../lib/live.js';
import { counted, line, useNow } from '../lib/text.js';
import { Empty, Head, Loading, Problem } from '../parts/basics.js';
import { Question, isUndecided, mayAccept } from '../parts/question.js';

/** How long what somebody else decided stays to be read. */
const SETTLED_MS = 15_000;
const URGENT_MS = 60_000;

/** @param {Api.RequestEntry[]} requests */
const dueFirst = (requests) => requests.toSorted((a, b) => a.deadline.localeCompare(b.deadline) || a.request_id.localeCompare(b.request_id));

/** Undecided ones, and for a while those that were just settled, each in its place. @param {Api.RequestEntry[] | null} open */
function useSettling(open) {
  const known = useRef(/** @type {Map<string, Api.RequestEntry>} */ (new Map()));
  const [settled, setSettled] = useState(/** @type {Record<string, Api.RequestEntry>} */ ({}));
  useEffect(() => {
    if (!open) return;
    const ids = new Set(open.map((request) => request.request_id));
    const gone = [...known.current.keys()].filter((id) => !ids.has(id));
    known.current = new Map(open.map((request) => [request.request_id, request]));
    for (const id of gone.slice(0, 50)) {
      get(`requests/${encodeURIComponent(id)}`).then((request) => {
        setSettled((old) => ({ ...old, [id]: request }));
        setTimeout(() => setSettled(({ [id]: _, ...rest }) => rest), SETTLED_MS);
      }, () => undefined);
    }
  }, [open]);
  const ids = new Set(open?.map((request) => request.request_id));
  return [...(open ?? []), ...Object.values(settled).filter((request) => !ids.has(request.request_id))];
}

/** Says once when a question has less than a minute left. @param {Api.RequestEntry[]} requests */
function useWarnings(requests) {
  const warned = useRef(new Set());
  const now = useNow();
  useEffect(() => {
    const late = requests.filter((request) => {
      const left = new Date(request.deadline).getTime() - now;
      return isUndecided(request) && left < URGENT_MS && left > 0 && !warned.current.has(request.request_id);
    });
    late.forEach((request) => warned.current.add(request.request_id));
    if (late.length === 1) notify(`Less than a minute left: ${line(late[0]?.headline, 100)}`, 'urgent');
    else if (late.length > 1) notify(`Less than a minute left for ${late.length} questions.`, 'urgent');
  }, [now, requests]);
}

/** @param {Props.Requests} _ */
function Requests({ session }) {
  const { value: open, error, reload } = useRows(
    () => /** @type {Promise<Api.RequestEntry[]>} */ (everything('requests', 'requests')), [],
    (event) => event.name === 'request' || (event.name === 'state' && ['done', 'dead', 'cancelled', 'answered', 'parked'].includes(event.data.state)),
  );
  const requests = dueFirst(useSettling(open));
  const [at, setAt] = useState(/** @type {string | null} */ (null));
  const acts = useRef(/** @type {Map<string, { accept: () => void, decline: () => void }>} */ (new Map()));
  useWarnings(requests);

  const undecided = requests.filter(isUndecided);
  const current = undecided.find((request) => request.request_id === at) ?? undecided[0];
  const move = (/** @type {number} */ by) => {
    const index = undecided.findIndex((request) => request === current);
    const next = undecided[Math.min(Math.max(index + by, 0), undecided.length - 1)];
    if (!next) return;
    setAt(next.request_id);
    const card = /** @type {HTMLElement | null} */ (document.querySelector(`[data-request="${CSS.escape(next.request_id)}"]`));
    card?.focus({ preventScroll: true });
    card?.scrollIntoView({ block: 'nearest' });
  };
  const act = (/** @type {'accept' | 'decline'} */ which) => current && acts.current.get(current.request_id)?.[which]();
  useKeys('Inbox', [
    { key: 'j', what: 'next question', run: () => move(1) },
    { key: 'k', what: 'question before', run: () => move(-1) },
    { key: 'a', what: 'accept, once its end was in sight', run: () => act('accept') },
    { key: 'd', what: 'decline', run: () => act('decline') },
  ]);

  if (!open) return error ? html`<${Problem} error=${error} what="questions" again=${reload} />` : html`<${Loading} />`;
  return html`
    <${Head} title="Inbox" sub=${undecided.length === 0 ? 'What Codex asks' : `Codex asks ${counted(undecided.length, 'question')}. Nobody answers: declined.`} />
    ${error && html`<${Problem} error=${error} what="questions" again=${reload} />`}
    ${requests.length === 0 && html`<${Empty} title="Nothing waits for you">
      <p>When Codex wants to leave its sandbox, change what it may not, or ask you something, it is here.</p>
      <p><a href="#/tasks">Start a task</a> or look at the <a href="#/conversations">conversations</a>.</p><//>`}
    <div class="questions">${requests.map((request) => html`<${Question} key=${request.request_id} request=${request}
      current=${request === current} mayAccept=${mayAccept(session)} onDecided=${reload}
      handle=${(one) => acts.current.set(request.request_id, one)} />`)}</div>`;
}

/** One question by itself: where a link leads. @param {Props.OneRequest} _ */
function OneRequest({ id, session }) {
  const { value, error, reload } = useRows(
    () => /** @type {Promise<Api.RequestEntry>} */ (get(`requests/${encodeURIComponent(id)}`)), [id],
    (event) => event.name === 'request' && event.data.request_id === id,
  );
  const acts = useRef({ accept: () => {}, decline: () => {} });
  useKeys('Question', [
    { key: 'a', what: 'accept, once its end was in sight', run: () => acts.current.accept() },
    { key: 'd', what: 'decline', run: () => acts.current.decline() },
  ]);
  if (!value) return error ? html`<${Problem} error=${error} what="this question" again=${reload} />` : html`<${Loading} />`;
  return html`<${Head} title="A question" sub=${html`<a href="#/requests">All questions</a>`} />
    <div class="questions"><${Question} request=${value} current alone mayAccept=${mayAccept(session)} onDecided=${reload}
      handle=${(one) => { acts.current = one; }} /></div>`;
}

/** @param {Route} _ */
export const Screen = ({ id, session }) => (id ? html`<${OneRequest} id=${id} session=${session} />` : html`<${Requests} session=${session} />`);
