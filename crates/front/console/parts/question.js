// @ts-check
/** One question of Codex: all that is decided about, and the decision. */

import { post } from '../lib/api.js';
import { html, useEffect, useRef, useState } from '../lib/html.js';
import { asApiError } from '../lib/load.js';
import { notify } from '../lib/notices.js';
import { Countdown, When } from '../lib/time.js';
import { line, visible } from '../lib/text.js';
import { Act, Badge, Confirm, Line } from './basics.js';
import { Form, answersOf, formFields } from './form.js';
import { LongText } from './long.js';
import { useSwipe } from './swipe.js';

/** @typedef {import('../../console-types/api').RequestEntry} RequestEntry */
/** @typedef {'accept' | 'acceptForSession' | 'decline' | 'cancel'} Decision */

/** What an accept leads to, as the terminal says it. @type {Record<string, string>} */
const MEANING = {
  command: 'Accept: it runs, once. For the session: this same command is not asked about again.',
  file_change: 'Accept: exactly this change is written, once.',
  permissions: 'Accept: the rest of this turn has these permissions; for the session: the rest of the thread.',
  mcp_tool: 'Accept: that tool runs, once, outside of the sandbox. For the session: it is not asked about again.',
  elicitation: 'Accept: what you fill in goes to that MCP server.',
  user_input: 'Your answer goes to Codex as it is.',
};
const FOR_SESSION = ['command', 'file_change', 'permissions', 'mcp_tool'];
/** @type {Record<string, string>} */
const DECIDED = {
  accept: 'accepted', acceptForSession: 'accepted for the session', decline: 'declined', cancel: 'declined, and the turn was cancelled',
  withdrawn: 'not asked any more', granted: 'decided; Codex gets it when it asks again',
};

/** @param {{ state: string }} request */
export const isUndecided = (request) => ['open', 'orphaned'].includes(request.state);

/** Requests whose end was in sight on this page: what is shown never changes, its digest names it. @type {Set<string>} */
const seenToTheEnd = new Set();

/** @param {RequestEntry} request @param {Decision} decision @param {unknown} answers */
async function decide(request, decision, answers) {
  const answer = await post(`requests/${encodeURIComponent(request.request_id)}/decision`, {
    decision, ...(answers ? { answers } : {}), ...(request.digest ? { digest: request.digest } : {}),
  });
  const words = DECIDED[decision] ?? decision;
  notify(`${request.code}: ${words}${answer.outcome === 'granted' ? '; Codex gets it when it asks again' : ''}`);
}

/** Whose work it is about; what is not your own stands out. @param {{ request: RequestEntry }} props */
function Whose({ request }) {
  const own = request.requester === 'you';
  return html`<${Badge} tone=${own ? 'own' : 'foreign'}>for <${Line} text=${request.requester || request.sender || 'somebody whom the daemon does not name'} /></${Badge}>`;
}

/** How it was settled, by whom and from where. @param {{ request: RequestEntry }} props */
export function Settled({ request }) {
  const words = DECIDED[request.state] ?? request.state;
  return html`<p class="settled" role="status">
    <strong>${line(words, 60)}</strong>
    ${request.by && html` by <${Line} text=${request.by} />`}${request.via && html` (<${Line} text=${request.via} />)`}
    ${request.why && html`: <${Line} text=${request.why} />`} ${' '}<${When} at=${request.decided_at} />
  </p>`;
}

/**
 * @param {{ request: RequestEntry, current?: boolean, onDecided?: () => void, mayAccept?: boolean,
 *   handle?: (acts: { accept: () => void, decline: () => void }) => void, alone?: boolean }} props
 */
export function Question({ request, current, onDecided, mayAccept = true, handle, alone }) {
  const id = request.request_id;
  const [seen, setSeen] = useState(seenToTheEnd.has(id));
  const [filled, setFilled] = useState(/** @type {Record<string, unknown>} */ ({}));
  const [asking, setAsking] = useState(/** @type {Decision | null} */ (null));
  const card = useRef(/** @type {HTMLElement | null} */ (null));

  const fields = formFields(request);
  const answers = fields.length > 0 ? answersOf(fields, filled) : undefined;
  const open = isUndecided(request);
  const ready = open && seen && mayAccept && answers !== null;
  const foreign = request.requester !== 'you';

  const settle = async (/** @type {Decision} */ decision) => {
    try {
      await decide(request, decision, decision.startsWith('accept') ? answers : undefined);
    } finally {
      onDecided?.();
    }
  };
  const quietly = (/** @type {Decision} */ decision) => settle(decision).catch((error) => notify(asApiError(error).message, 'failed'));
  const accept = () => {
    if (!ready) return notify(!mayAccept ? 'This session may not accept.' : !seen ? 'Look at the end of it first.' : 'Fill in the answers first.', 'failed');
    // Somebody else's work with your rights: asked again.
    if (foreign) setAsking('accept');
    else quietly('accept');
  };
  const decline = () => void (open && quietly('decline'));

  useEffect(() => handle?.({ accept, decline }));
  useEffect(() => {
    if (current) card.current?.scrollIntoView({ block: 'nearest' });
  }, [current]);
  const swipe = useSwipe({ onRight: ready ? accept : undefined, onLeft: open ? decline : undefined });

  const why = !mayAccept ? 'This session may not accept' : !seen ? 'Enabled when the end of it was in sight' : answers === null ? 'Fill in the answers first' : '';
  const shown = visible(request.shown ?? request.headline);
  return html`<article ref=${card} class="question ${current ? 'current' : ''} ${open ? '' : 'over'}" tabindex="-1"
      aria-labelledby="q-${id}" data-request=${id} ...${swipe}>
    <header>
      <h2 id="q-${id}"><${Line} text=${request.headline} length=${240} /></h2>
      <p class="meta">
        <${Whose} request=${request} />
        <a href="#/messages/${encodeURIComponent(request.message_id)}">why</a>
        <span>in <${Line} text=${request.conversation} length=${60} /></span>
        <code>${line(request.code, 20)}</code>
        ${open && html`<span class="deadline"><${Countdown} at=${request.deadline} />, then declined</span>`}
      </p>
    </header>
    ${(request.shown || alone) && html`<${LongText} text=${shown} diff=${request.kind === 'file_change'} label="All that is decided about"
      onEnd=${seen ? undefined : () => { seenToTheEnd.add(id); setSeen(true); }} />`}
    ${request.state === 'orphaned' && html`<p class="remark">Codex died while it asked. What you decide counts once, if it asks for exactly the same again.</p>`}
    ${open && fields.length > 0 && html`<${Form} fields=${fields} filled=${filled} name=${id}
      onFill=${(/** @type {string} */ field, /** @type {unknown} */ value) => setFilled({ ...filled, [field]: value })} />`}
    ${open ? html`<footer class="actions">
      <button class="primary" disabled=${!ready} title=${why} onClick=${accept} aria-label="Accept ${line(request.code, 20)}">Accept${current && html` <kbd>a</kbd>`}</button>
      <${Act} tone="decline" act=${() => settle('decline')} label="Decline ${line(request.code, 20)}">Decline${current && html` <kbd>d</kbd>`}</${Act}>
      <details class="more"><summary>More</summary><div class="actions">
        ${FOR_SESSION.includes(request.kind) && html`<button disabled=${!ready} onClick=${() => setAsking('acceptForSession')}>Accept for the session</button>`}
        <button onClick=${() => setAsking('cancel')}>Decline and cancel the turn</button>
      </div></details>
      <p class="dim meaning">${why || MEANING[request.kind]}</p>
    </footer>` : html`<${Settled} request=${request} />`}
    ${asking && html`<${Again} request=${request} decision=${asking} act=${() => settle(asking)} onClose=${() => setAsking(null)} />`}
  </article>`;
}

/** @param {{ request: RequestEntry, decision: Decision, act: () => Promise<void>, onClose: () => void }} props */
function Again({ request, decision, act, onClose }) {
  const [title, yes, words] = decision === 'cancel'
    ? ['Cancel the turn?', 'Cancel the turn', 'It is not done, and the turn ends.']
    : decision === 'acceptForSession'
      ? ['Accept for the session?', 'Accept for the session', 'It is done, and the same is not asked again while this Codex lives.']
      : ['Accept somebody else’s work?', 'Accept', 'It runs with your rights, possibly outside of the sandbox.'];
  return html`<${Confirm} title=${title} yes=${yes} act=${act} onClose=${onClose} tone=${decision === 'cancel' ? 'danger' : 'primary'}>
    <p><${Line} text=${request.headline} length=${400} /></p>
    <p>For <strong><${Line} text=${request.requester ?? ''} /></strong>. ${words}</p>
  </${Confirm}>`;
}
