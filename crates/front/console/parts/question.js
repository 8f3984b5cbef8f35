// @ts-check
/** One question of Codex: all that is decided about, what it wants filled in, and the decision. */

import { post } from '../lib/api.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/html.js';
import { notify } from '../lib/keys.js';
import { asApiError } from '../lib/live.js';
import { Countdown, When, line, visible } from '../lib/text.js';
import { Act, Badge, Confirm, Line, LongText, Text, useSwipe } from './basics.js';

/** @param {any} value @returns {any[]} */
const list = (value) => (Array.isArray(value) ? value : []);

/** @param {any} value */
const words = (value) => (typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value));

/** @param {{ kind: string, payload?: any }} request @returns {Field[]} */
export function formFields({ kind, payload }) {
  if (kind === 'user_input') return list(payload?.questions).map(ofQuestion);
  if (kind !== 'elicitation') return [];
  const schema = payload?.requestedSchema ?? {};
  const required = list(schema.required);
  return Object.entries(schema.properties ?? {}).map(([id, property]) => ofProperty(id, property, required.includes(id)));
}

/** @param {any} question @returns {Field} */
function ofQuestion(question) {
  const options = list(question?.options).map((option) => ({
    label: words(option?.label), help: words(option?.description), value: option?.label,
  }));
  const free = options.length === 0 || question?.isOther === true;
  return {
    id: words(question?.id), title: words(question?.question), options, typed: free ? 'text' : '',
    required: true, preset: undefined, secret: question?.isSecret === true,
  };
}

/** @param {string} id @param {any} schema @param {boolean} required @returns {Field} */
function ofProperty(id, schema, required) {
  const named = list(schema?.enum).map((value, at) => ({ label: words(schema.enumNames?.[at] ?? value), help: '', value }));
  const titled = list(schema?.oneOf).filter((one) => one?.const != null)
    .map((one) => ({ label: words(one.title ?? one.const), help: '', value: one.const }));
  const options = [...named, ...titled];
  const type = ['integer', 'number', 'boolean'].includes(schema?.type) ? schema.type : 'text';
  return {
    id, title: [schema?.title, schema?.description].filter(Boolean).map(words).join(': ') || id,
    options, typed: options.length > 0 ? '' : type, required, preset: schema?.default, secret: false,
  };
}

/**
 * The answers, or `null` while a required one is missing or unreadable.
 * @param {Field[]} fields
 * @param {Record<string, unknown>} filled
 */
export function answersOf(fields, filled) {
  /** @type {[string, unknown][]} */
  const answers = [];
  for (const field of fields) {
    const value = filled[field.id] ?? field.preset;
    if (value === undefined || value === '') {
      if (field.required) return null;
    } else if (typeof value === 'number' && !Number.isFinite(value)) return null;
    else answers.push([field.id, value]);
  }
  return Object.fromEntries(answers);
}

/** @param {Props.Form} _ */
export function Form({ fields, filled, onFill, name }) {
  return html`<div class="form">${fields.map((field) => html`
    <fieldset key=${field.id}>
      <legend><${Text} text=${field.title} />${field.required ? '' : html` <span class="dim">optional</span>`}</legend>
      ${field.options.map((option, at) => html`<label class="choice">
        <input type="radio" name=${`${name} ${field.id}`} checked=${(filled[field.id] ?? field.preset) === option.value}
          onChange=${() => onFill(field.id, option.value)} />
        <span><${Text} text=${option.label} />${option.help && html`<small><${Text} text=${option.help} /></small>`}</span>
        <span class="spoken">choice ${at + 1}</span>
      </label>`)}
      ${field.typed && html`<${Input} field=${field} value=${filled[field.id] ?? field.preset} onFill=${onFill} />`}
    </fieldset>`)}</div>`;
}

/** @param {Props.Input} _ */
function Input({ field, value, onFill }) {
  const label = field.title || field.id;
  if (field.typed === 'boolean') {
    return html`<label class="choice"><input type="checkbox" checked=${value === true}
      onChange=${(event) => onFill(field.id, event.target.checked)} /><span>Yes</span></label>`;
  }
  const numeric = field.typed !== 'text';
  const chosen = field.options.some((option) => option.value === value);
  return html`<input type=${field.secret ? 'password' : 'text'} inputmode=${numeric ? 'decimal' : 'text'} autocomplete="off"
    aria-label=${label} placeholder=${field.options.length > 0 ? 'Another answer' : ''} value=${chosen ? '' : String(value ?? '')}
    onInput=${(event) => onFill(field.id, read(event.target.value, field.typed))} />`;
}

/** @param {string} text @param {Field['typed']} type */
function read(text, type) {
  if (type !== 'integer' && type !== 'number') return text;
  if (text.trim() === '') return '';
  const number = Number(text);
  return type === 'integer' && !Number.isSafeInteger(number) ? NaN : number;
}

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

/** @param {Session | null} session */
export const mayAccept = (session) => !session || session.scopes.includes('approve');

/** What was in sight to its end on this page, by request and digest. @type {Set<string>} */
const seenToTheEnd = new Set();

/** @param {Api.RequestEntry} request @param {Decision} decision @param {unknown} answers */
async function decide(request, decision, answers) {
  const answer = await post(`requests/${encodeURIComponent(request.request_id)}/decision`, {
    decision, ...(answers ? { answers } : {}), ...(request.digest ? { digest: request.digest } : {}),
  });
  const words = DECIDED[decision] ?? decision;
  notify(`${request.code}: ${words}${answer.outcome === 'granted' ? '; Codex gets it when it asks again' : ''}`);
}

/** Whose work it is about; what is not your own stands out. @param {Props.Whose} _ */
function Whose({ request }) {
  const own = request.requester === 'you';
  return html`<${Badge} tone=${own ? 'own' : 'foreign'}>for <${Line} text=${request.requester || request.sender || 'somebody whom the daemon does not name'} /><//>`;
}

/** How it was settled, by whom and from where. @param {Props.Settled} _ */
export function Settled({ request }) {
  const words = DECIDED[request.state] ?? request.state;
  return html`<p class="settled" role="status">
    <strong>${line(words, 60)}</strong>
    ${request.by && html` by <${Line} text=${request.by} />`}${request.via && html` (<${Line} text=${request.via} />)`}
    ${request.why && html`: <${Line} text=${request.why} />`} ${' '}<${When} at=${request.decided_at} />
  </p>`;
}

/** @param {Props.Question} _ */
export function Question({ request, current, onDecided, mayAccept = true, handle, alone }) {
  const id = request.request_id;
  const shownAs = `${id} ${request.digest}`;
  const [seen, setSeen] = useState(seenToTheEnd.has(shownAs));
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

  useLayoutEffect(() => handle?.({ accept, decline }));
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
      onEnd=${seen ? undefined : () => { seenToTheEnd.add(shownAs); setSeen(true); }} />`}
    ${request.state === 'orphaned'
      && html`<p class="remark">Codex died while it asked. What you decide counts once, if it asks for exactly the same again.</p>`}
    ${open && fields.length > 0 && html`<${Form} fields=${fields} filled=${filled} name=${id}
      onFill=${(field, value) => setFilled({ ...filled, [field]: value })} />`}
    ${open ? html`<footer class="actions">
      <button class="primary" disabled=${!ready} title=${why} onClick=${accept} aria-describedby="q-${id}">Accept${current && html` <kbd aria-hidden="true">a</kbd>`}</button>
      <${Act} tone="decline" act=${() => settle('decline')} about="q-${id}">Decline${current && html` <kbd aria-hidden="true">d</kbd>`}<//>
      <details class="more"><summary>More</summary><div class="actions">
        ${FOR_SESSION.includes(request.kind) && html`<button disabled=${!ready} onClick=${() => setAsking('acceptForSession')}>Accept for the session</button>`}
        <button onClick=${() => setAsking('cancel')}>Decline and cancel the turn</button>
      </div></details>
      <p class="dim meaning">${why || MEANING[request.kind]}</p>
    </footer>` : html`<${Settled} request=${request} />`}
    ${asking && html`<${Again} request=${request} decision=${asking} act=${() => settle(asking)} onClose=${() => setAsking(null)} />`}
  </article>`;
}

/** @param {Props.Again} _ */
function Again({ request, decision, act, onClose }) {
  const [title, yes, words] = decision === 'cancel'
    ? ['Cancel the turn?', 'Cancel the turn', 'It is not done, and the turn ends.']
    : decision === 'acceptForSession'
      ? ['Accept for the session?', 'Accept for the session', 'It is done, and the same is not asked again while this Codex lives.']
      : ['Accept somebody else’s work?', 'Accept', 'It runs with your rights, possibly outside of the sandbox.'];
  return html`<${Confirm} title=${title} yes=${yes} act=${act} onClose=${onClose} tone=${decision === 'cancel' ? 'danger' : 'primary'}>
    <p><${Line} text=${request.headline} length=${400} /></p>
    <p>For <strong><${Line} text=${request.requester ?? ''} /></strong>. ${words}</p>
  <//>`;
}
