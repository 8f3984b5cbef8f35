/** What Codex asks, what was said, what is worked on, what failed, and why anything is where it is. */

import {
  Act, Ago, asApiError, Badge, bytes, complain, Confirm, Countdown, counted, Dialog, download, Empty, everything, exactly, Facts, Field, find,
  follow, full, get, goTo, Head, hex, html, isOver, Later, line, Loading, LongText, mark, notify, output, post, Problem, recall, remember, remove,
  Rows, save, Select, short, SOURCE, span, Steps, typed, useEffect, useKeys, useLayoutEffect, useListener, useMemo, useNew, useNow, useRef, useRows,
  useState, useSwipe, visible, when,
} from '../app.js';

// ---- Questions.

// What a question wants filled in comes from Codex, and anything may be missing.
const list = (value) => (Array.isArray(value) ? value : []);
const words = (value) => (typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value));
const option = (label, value, help = '') => ({ label: words(label), help: words(help), value });

/** @param {{ kind: string, payload?: any }} request */
function formFields({ kind, payload }) {
  if (kind === 'user_input') return list(payload?.questions).map(ofQuestion);
  if (kind !== 'elicitation') return [];
  const { properties = {}, required } = payload?.requestedSchema ?? {};
  return Object.entries(properties).map(([id, property]) => ofProperty(id, property ?? {}, list(required).includes(id)));
}

function ofQuestion(question) {
  const options = list(question?.options).map((one) => option(one?.label, one?.label, one?.description));
  const free = options.length === 0 || question?.isOther === true;
  return { id: words(question?.id), title: words(question?.question), options, typed: free ? 'text' : '', required: true, secret: question?.isSecret === true };
}

function ofProperty(id, schema, required) {
  const options = [...list(schema.enum).map((value, at) => option(schema.enumNames?.[at] ?? value, value)),
    ...list(schema.oneOf).filter((one) => one?.const != null).map((one) => option(one.title ?? one.const, one.const))];
  const type = ['integer', 'number', 'boolean'].includes(schema.type) ? schema.type : 'text';
  const title = [schema.title, schema.description].filter(Boolean).map(words).join(': ') || id;
  return { id, title, options, typed: options.length > 0 ? '' : type, required, preset: schema.default };
}

/** What was filled in, as what is wanted; `NaN` when it can't be read. */
function valueOf({ id, typed, preset }, filled) {
  const value = filled[id] ?? preset ?? '';
  if (typeof value !== 'string' || !value || !['integer', 'number'].includes(typed)) return value;
  const number = Number(value);
  return Number.isFinite(number) && (typed === 'number' || Number.isSafeInteger(number)) ? number : NaN;
}

/** The answers, or `null` while a required one is missing or unreadable. @returns {Record<string, unknown> | null} */
function answersOf(fields, filled) {
  const answers = fields.map((field) => ({ ...field, value: valueOf(field, filled) }));
  if (answers.some(({ value, required }) => (value === '' ? required : Number.isNaN(value)))) return null;
  return Object.fromEntries(answers.filter(({ value }) => value !== '').map(({ id, value }) => [id, value]));
}

const Form = ({ fields, filled, onFill, name }) => html`<div class="form">${fields.map((field) => {
  const value = filled[field.id] ?? field.preset;
  return html`<fieldset key=${field.id}><legend>${full(field.title)}${!field.required && html` <span class="dim">optional</span>`}</legend>
    ${field.options.map((option, at) => html`<label class="choice">
      <input type="radio" name=${`${name} ${field.id}`} checked=${value === option.value} onChange=${() => onFill(field.id, option.value)} />
      <span>${full(option.label)}${option.help && html`<small>${full(option.help)}</small>`}</span>
      <span class="spoken">choice ${at + 1}</span></label>`)}
    ${field.typed && html`<${Input} field=${field} value=${value} fill=${(next) => onFill(field.id, next)} />`}</fieldset>`;
})}</div>`;

function Input({ field, value, fill }) {
  if (field.typed === 'boolean') {
    return html`<label class="choice"><input type="checkbox" checked=${value === true} onChange=${(event) => fill(event.target.checked)} /><span>Yes</span></label>`;
  }
  const chosen = field.options.some((option) => option.value === value);
  return html`<input type=${field.secret ? 'password' : 'text'} inputmode=${field.typed === 'text' ? 'text' : 'decimal'} autocomplete="off"
    aria-label=${visible(field.title)} placeholder=${field.options.length > 0 ? 'Another answer' : ''} value=${chosen ? '' : String(value ?? '')}
    onInput=${(event) => fill(event.target.value)} />`;
}

const MEANING = {
  command: 'Accept: it runs, once. For the session: it is not asked about again.',
  file_change: 'Accept: exactly this change is written, once.',
  permissions: 'Accept: the rest of this turn has these permissions. For the session: the rest of the thread.',
  mcp_tool: 'Accept: it runs, once, outside of the sandbox. For the session: it is not asked about again.',
  elicitation: 'Accept: what you fill in goes to that MCP server.',
  user_input: 'Your answer goes to Codex as it is.',
};
const FOR_SESSION = ['command', 'file_change', 'permissions', 'mcp_tool'];
const DECIDED = {
  accept: 'accepted', acceptForSession: 'accepted for the session', decline: 'declined', cancel: 'declined, and the turn was cancelled',
  withdrawn: 'not asked any more', granted: 'decided; Codex gets it when it asks again',
};
const AGAIN = {
  accept: ['Accept somebody else’s work?', 'Accept', 'It runs with your rights, possibly outside of the sandbox.'],
  acceptForSession: ['Accept for the session?', 'Accept for the session', 'It is done, and the same is not asked again while this Codex lives.'],
  cancel: ['Cancel the turn?', 'Cancel the turn', 'It is not done, and the turn ends.'],
};

export const isUndecided = (request) => ['open', 'orphaned'].includes(request.state);

/** What was in sight to its end on this page, by request and digest. @type {Set<string>} */
const seenToTheEnd = new Set();

/** @param {Props.Settled} _ */
export const Settled = ({ request }) => html`<p class="dim" role="status"><strong>${line(DECIDED[request.state] ?? request.state, 60)}</strong>
  ${request.by && html` by ${short(request.by)}`}${request.via && html` (${short(request.via)})`}
  ${request.why && html`: ${short(request.why)}`} ${' '}${when(request.decided_at)}</p>`;

/** @param {Props.Question} _ */
export function Question({ request, session, current, alone, onDecided, handle }) {
  const id = request.request_id;
  const shownAs = `${id} ${request.digest}`;
  const [seen, setSeen] = useState(seenToTheEnd.has(shownAs));
  const [filled, setFilled] = useState({});
  const [asking, setAsking] = useState('');
  const card = useRef(null);

  const fields = formFields(request);
  const answers = fields.length > 0 ? answersOf(fields, filled) : undefined;
  const open = isUndecided(request);
  const mayAccept = !session || session.scopes.includes('approve');
  const why = !mayAccept ? 'This session may not accept.' : !seen ? 'Enabled when the end of it was in sight.' : answers === null ? 'Fill in the answers first.' : '';
  const ready = open && !why;

  const settle = async (decision) => {
    const answer = await post(`requests/${id}/decision`, {
      decision, digest: request.digest ?? undefined, answers: decision.startsWith('accept') ? answers : undefined,
    }).finally(onDecided);
    notify(`${request.code}: ${DECIDED[decision]}${answer.outcome === 'granted' ? '; Codex gets it when it asks again' : ''}`);
  };
  const accept = () => {
    if (!ready) return notify(why, 'failed');
    // Somebody else's work with your rights: asked again.
    if (request.requester !== 'you') setAsking('accept');
    else settle('accept').catch(complain);
  };
  const decline = () => void (open && settle('decline').catch(complain));
  useLayoutEffect(() => handle?.({ accept, decline }));
  useEffect(() => { if (current) card.current.scrollIntoView({ block: 'nearest' }); }, [current]);
  const swipe = useSwipe({ onRight: ready && accept, onLeft: open && decline });
  const key = (name) => current && html` <kbd aria-hidden="true">${name}</kbd>`;

  return html`<article ref=${card} class="question ${current ? 'current' : ''} ${open ? '' : 'over'}" tabindex="-1" aria-labelledby="q-${id}" data-request=${id} ...${swipe}>
    <header><h2 id="q-${id}">${short(request.headline, 240)}</h2>
      <p class="meta"><${Badge} tone=${request.requester === 'you' ? 'own' : 'foreign'}>for ${short(request.requester || request.sender || 'somebody whom the daemon does not name')}<//>
        <a href="#/messages/${request.message_id}">why</a><span>in ${short(request.conversation, 60)}</span><code>${line(request.code, 20)}</code>
        ${open && html`<span class="deadline"><${Countdown} at=${request.deadline} />, then declined</span>`}</p></header>
    ${(request.shown || alone) && html`<${LongText} text=${visible(request.shown ?? request.headline)} diff=${request.kind === 'file_change'} label="All that is decided about"
      onEnd=${!seen && (() => { seenToTheEnd.add(shownAs); setSeen(true); })} />`}
    ${request.state === 'orphaned' && html`<p class="remark">Codex died while it asked. What you decide counts once, if it asks for exactly the same again.</p>`}
    ${open && fields.length > 0 && html`<${Form} fields=${fields} filled=${filled} name=${id} onFill=${(field, value) => setFilled({ ...filled, [field]: value })} />`}
    ${open ? html`<footer class="actions">
      <button class="primary" disabled=${!ready} title=${why} onClick=${accept} aria-describedby="q-${id}">Accept${key('a')}</button>
      <${Act} tone="danger" act=${() => settle('decline')} about="q-${id}">Decline${key('d')}<//>
      <details class="more"><summary>More</summary><div class="actions">
        ${FOR_SESSION.includes(request.kind) && html`<button disabled=${!ready} onClick=${() => setAsking('acceptForSession')}>Accept for the session</button>`}
        <button onClick=${() => setAsking('cancel')}>Decline and cancel the turn</button></div></details>
      <p class="dim meaning">${why || MEANING[request.kind]}</p></footer>` : html`<${Settled} request=${request} />`}
    ${asking && html`<${Confirm} title=${AGAIN[asking][0]} yes=${AGAIN[asking][1]} act=${() => settle(asking)} onClose=${() => setAsking('')} tone=${asking === 'cancel' ? 'danger' : 'primary'}>
      <p>${short(request.headline, 400)}</p><p>For <strong>${short(request.requester)}</strong>. ${AGAIN[asking][2]}</p><//>`}
  </article>`;
}

const SETTLED_MS = 15_000;
const SETTLED_MAX = 50;
const URGENT_MS = 60_000;

/** @param {Api.RequestEntry[] | null} open */
function useSettling(open) {
  const known = useRef([]);
  const [settled, setSettled] = useState([]);
  const ids = new Set(open?.map((request) => request.request_id));
  useEffect(() => {
    if (!open) return;
    const gone = known.current.filter((id) => !ids.has(id));
    known.current = [...ids];
    for (const id of gone.slice(0, SETTLED_MAX)) {
      get(`requests/${id}`).then((request) => {
        setSettled((old) => [...old, request]);
        setTimeout(() => setSettled((old) => old.filter((one) => one !== request)), SETTLED_MS);
      }, () => undefined);
    }
  }, [open]);
  return [...(open ?? []), ...settled.filter((request) => !ids.has(request.request_id))]
    .sort((a, b) => a.deadline.localeCompare(b.deadline) || a.request_id.localeCompare(b.request_id));
}

/** @param {Api.RequestEntry[]} requests */
function useWarnings(requests) {
  const warned = useRef(new Set());
  const now = useNow();
  useEffect(() => {
    const late = requests.filter((request) => {
      const left = Date.parse(request.deadline) - now;
      return isUndecided(request) && left < URGENT_MS && left > 0 && !warned.current.has(request.request_id);
    });
    late.forEach((request) => warned.current.add(request.request_id));
    if (late.length > 0) notify(`Less than a minute left${late.length > 1 ? ` for ${late.length} questions.` : `: ${line(late[0].headline, 100)}`}`, 'urgent');
  }, [now, requests]);
}

const deciding = (acts) => [
  { key: 'a', what: 'accept, once its end was in sight', run: () => acts()?.accept() },
  { key: 'd', what: 'decline', run: () => acts()?.decline() },
];

function Requests({ session }) {
  const { value: open, error, reload } = useRows(() => everything('requests', 'requests'), [],
    ({ name, data }) => name === 'request' || (name === 'state' && ['done', 'dead', 'cancelled', 'answered', 'parked'].includes(data.state)));
  const requests = useSettling(open);
  const [at, setAt] = useState('');
  const acts = useRef({});
  useWarnings(requests);

  const undecided = requests.filter(isUndecided);
  const current = undecided.find((request) => request.request_id === at) ?? undecided[0];
  const move = (by) => {
    const next = undecided[undecided.findIndex((request) => request === current) + by];
    if (!next) return;
    setAt(next.request_id);
    find(`[data-request="${CSS.escape(next.request_id)}"]`)?.focus({ preventScroll: true });
  };
  useKeys('Inbox', [
    { key: 'j', what: 'next question', run: () => move(1) }, { key: 'k', what: 'question before', run: () => move(-1) },
    ...deciding(() => acts.current[current?.request_id]),
  ]);

  if (!open) return html`<${Loading} error=${error} what="questions" again=${reload} />`;
  return html`
    <${Head} title="Inbox" sub=${undecided.length === 0 ? 'What Codex asks' : `Codex asks ${counted(undecided.length, 'question')}. Nobody answers: declined.`}><${Notify} /><//>
    <${Problem} error=${error} what="questions" again=${reload} />
    ${requests.length === 0 && html`<${Empty} title="Nothing waits for you">
      <p>When Codex wants to leave its sandbox, change what it may not, or ask you something, it is here.</p>
      <p><a href="#/tasks">Start a task</a> or look at the <a href="#/conversations">conversations</a>.</p><//>`}
    <div class="questions">${requests.map((request) => html`<${Question} key=${request.request_id} request=${request} session=${session}
      current=${request === current} onDecided=${reload} handle=${(one) => { acts.current[request.request_id] = one; }} />`)}</div>`;
}

function OneRequest({ id, session }) {
  const { value, error, reload } = useRows(() => get(`requests/${id}`), [id], ({ name, data }) => name === 'request' && data.request_id === id);
  const acts = useRef(undefined);
  useKeys('Question', deciding(() => acts.current));
  if (!value) return html`<${Loading} error=${error} what="this question" again=${reload} />`;
  return html`<${Head} title="A question" sub=${html`<a href="#/requests">All questions</a>`} />
    <div class="questions"><${Question} request=${value} session=${session} current alone onDecided=${reload} handle=${(one) => { acts.current = one; }} /></div>`;
}

export const Inbox = ({ id, session }) => (id ? html`<${OneRequest} id=${id} session=${session} />` : html`<${Requests} session=${session} />`);

// Whether this browser is told while nobody looks at the page: Web Push, shown by `sw.js`.

// Trusted Types refuse every address of a worker but what this policy gives.
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy('sw', { createScriptURL: () => './sw.js' });

const registered = () => navigator.serviceWorker.register(policy?.createScriptURL('') ?? './sw.js');

function obstacle() {
  if (!isSecureContext) return 'Browsers notify only for pages on https or localhost: see “On the phone” in the guide.';
  if (!('PushManager' in globalThis)) return 'This browser has no notifications for pages. On an iPhone, add the page to the home screen first.';
  if (Notification.permission === 'denied') return 'Notifications of this page are blocked: allow them in the settings of the browser.';
  return '';
}

async function subscribe(key, headline) {
  if (await Notification.requestPermission() !== 'granted') throw new Error('The browser did not allow it.');
  await registered();
  const { pushManager } = await navigator.serviceWorker.ready;
  const { endpoint, keys } = (await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key })).toJSON();
  const { id } = /** @type {any} */ (await post('push', { endpoint, ...keys, about: ['question', 'failure'], detail: headline ? 'headline' : 'hint' }));
  await remember('push', id);
}

async function unsubscribe(id) {
  await remove(`push/${id}`);
  await remember('push', '');
  await (await (await registered()).pushManager.getSubscription())?.unsubscribe();
}

function Choose({ known, mine, onClose }) {
  const [headline, setHeadline] = useState(false);
  const blocked = obstacle();
  const then = (act) => () => act().then(onClose);
  return html`<${Dialog} title="Notify this browser" onClose=${onClose}>
    <p>When Codex asks something, or a message failed; also while the page is closed.</p>
    ${(blocked || mine?.error) && html`<p class="remark">${blocked || full(`The last one was not taken: ${mine.error}`)}</p>`}
    ${mine ? html`<div class="actions"><${Act} tone="danger" act=${then(() => unsubscribe(mine.id))}>Turn off<//></div>` : !blocked && html`
      <label class="choice"><input type="checkbox" onChange=${({ target }) => setHeadline(target.checked)} />
        <span>Send what it is about<small>Without, the browser reads the question here; its push service carries no word of it.</small></span></label>
      <div class="actions"><${Act} tone="primary" act=${then(() => subscribe(known.key, headline))}>Turn on<//></div>`}<//>`;
}

function Notify() {
  const [known, setKnown] = useState(null);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    Promise.all([get('push'), recall('push')]).then(([found, id]) => setKnown({ .../** @type {any} */ (found), id }), () => undefined);
    if (navigator.serviceWorker) navigator.serviceWorker.onmessage = ({ data }) => { location.hash = data.path; };
  }, [open]);
  const mine = known?.subscriptions.find((one) => one.id === known.id);
  return known && html`<button aria-pressed=${!!mine} class="chip" onClick=${() => setOpen(true)}>Notify this browser</button>
    ${open && html`<${Choose} known=${known} mine=${mine} onClose=${() => setOpen(false)} />`}`;
}

// What failed, or was cut and waits for a person: retried or given up, one or many.

const CALL_MAX = 100;

/** `dry_run` only says what would happen. @param {Verb} verb @param {Api.DeadView[]} some */
async function act(verb, some, dry_run) {
  const answers = [];
  for (let from = 0; from < some.length; from += CALL_MAX) {
    answers.push(await post(`dead/${verb}`, { ids: some.slice(from, from + CALL_MAX).map((one) => one.message_id), dry_run }));
  }
  return { done: answers.flatMap(({ done }) => done), refused: answers.flatMap(({ refused }) => refused) };
}

/** @param {Api.DeadView} one */
const willDo = (one) => (one.answered ? 'Its answer is there: only what was not sent is sent again. Codex does not run.'
  : one.state === 'parked' ? 'Codex goes on in the same thread; it is told to look first at what was already done.'
    : 'Codex works on its text again, in the same conversation.');
const GIVEN_UP = 'given up. That can’t be taken back.';

/** @param {Api.DeadView} one @returns {(story: any) => Child} */
const would = (one) => (story) => html`<p>${willDo(one)}</p><${LongText} text=${visible(story.text)} label="Text of the message" />
  <p class="dim">in <code>${full(story.workdir)}</code>${story.attempts.length > 0 && html`, sandbox ${short(story.attempts.at(-1).sandbox)}`}
    ${story.attempts.some((attempt) => attempt.touched) && ', after commands or changes that may have had an effect'}</p>`;

/** @param {Props.Dead} _ */
const Dead = ({ one, chosen, choose, ask }) => html`<article class="card dead" aria-label=${line(one.line, 80)}>
  <header class="meta"><label class="pick"><input type="checkbox" checked=${chosen} aria-label="Choose: ${line(one.line, 80)}" onChange=${({ target }) => choose(target.checked)} /></label>
    ${one.state === 'parked' ? html`<${Badge} tone="waits">waits for you<//>` : html`<${Badge} tone="failed">failed<//>`}
    <span>from <strong>${short(one.sender, 60)}</strong> in ${short(one.conversation, 60)}</span>
    <span><${Ago} at=${one.since} />, ${counted(one.attempts, 'attempt')}</span>
    <a class="right" href="#/messages/${one.message_id}">why</a></header>
  <p class="words">${short(one.line, 300)}</p>
  <p class="reason">${full(one.reason)}</p>
  <${Later} summary="What would run again" read=${() => get(`messages/${one.message_id}`)} draw=${would(one)} />
  <footer class="actions"><button class="primary" onClick=${() => ask('retry')}>${one.state === 'parked' ? 'Go on' : 'Retry'}</button>
    <button onClick=${() => ask('discard')}>Discard</button>
    ${one.until && html`<span class="dim">kept until ${when(one.until)}</span>`}</footer></article>`;

/** @param {Props.Ask} _ */
function Ask({ verb, some, onClose, reload }) {
  const [refused, setRefused] = useState([]);
  useEffect(() => { act(verb, some, true).then((would) => setRefused(would.refused), () => undefined); }, []);
  const drop = verb === 'discard';
  const run = async () => {
    const did = await act(verb, some, false).finally(reload);
    const words = drop ? 'given up' : 'sent again';
    if (did.refused[0]) throw new Error(`${counted(did.refused.length, 'message was', 'messages were')} not ${words}: ${did.refused[0].reason}`);
    notify(`${counted(did.done.length, 'message')} ${words}.`);
  };
  const turns = some.filter((one) => !one.answered).length;
  const one = some.length === 1 ? some[0] : null;
  const title = `${drop ? 'Discard' : one?.state === 'parked' ? 'Go on with' : 'Retry'} ${one ? 'this message' : counted(some.length, 'message')}?`;
  return html`<${Confirm} title=${title} yes=${drop ? 'Discard' : 'Send again'} tone=${drop ? 'danger' : 'primary'} act=${run} onClose=${onClose}>
    ${one ? html`<p class="words">${short(one.line, 300)}</p><p>${drop ? `It is ${GIVEN_UP}` : willDo(one)}</p>`
      : html`<p>${drop ? `They are ${GIVEN_UP}` : `${counted(turns, 'turn')} of Codex${some.length > turns ? ` and ${counted(some.length - turns, 'answer')}` : ''}, one a second.`}</p>
        <ul class="short">${some.slice(0, 8).map((other) => html`<li>${short(other.line, 100)}</li>`)}
          ${some.length > 8 && html`<li class="dim">and ${some.length - 8} more</li>`}</ul>`}
    ${refused.length > 0 && html`<div class="remark"><p>Not possible now for ${refused.length}:</p>
      <ul class="short">${refused.slice(0, 4).map(({ reason }) => html`<li>${full(reason)}</li>`)}</ul></div>`}<//>`;
}

export function Failed() {
  const { value: dead, error, reload } = useRows(() => everything('dead', 'dead'), [], ({ name }) => name === 'state');
  const [chosen, setChosen] = useState([]);
  const [asked, setAsked] = useState(null);
  if (!dead) return html`<${Loading} error=${error} what="failed messages" again=${reload} />`;
  const some = dead.filter((one) => chosen.includes(one.message_id));
  const choose = (id) => (on) => setChosen(on ? [...chosen, id] : chosen.filter((one) => one !== id));
  const close = () => {
    setAsked(null);
    setChosen([]);
  };
  return html`
    <${Head} title="Failed" sub="Dead letters, and what was cut after a change">
      ${dead.length > 1 && html`<label class="choice"><input type="checkbox" checked=${some.length === dead.length}
        onChange=${({ target }) => setChosen(target.checked ? dead.map((one) => one.message_id) : [])} /><span>All ${dead.length}</span></label>`}
      ${some.length > 0 && html`<button class="primary" onClick=${() => setAsked({ verb: 'retry', some })}>Retry ${some.length}</button>
        <button onClick=${() => setAsked({ verb: 'discard', some })}>Discard ${some.length}</button>`}<//>
    <${Problem} error=${error} what="failed messages" again=${reload} />
    ${dead.length === 0 && html`<${Empty} title="Nothing failed"><p>A message that can’t be answered ends here, with its text and the reason.</p><//>`}
    <div class="cards">${dead.map((one) => html`<${Dead} key=${one.message_id} one=${one} chosen=${chosen.includes(one.message_id)} choose=${choose(one.message_id)}
      ask=${(verb) => setAsked({ verb, some: [one] })} />`)}</div>
    ${asked && html`<${Ask} ...${asked} reload=${reload} onClose=${close} />`}`;
}

// One message as a branching timeline: where it is, how it came there, and what happens next.

/** The trunk of a life, and where it can leave it (`docs/ARCHITECTURE.md`, the life of a message). */
const TRUNK = ['received', 'claimed', 'starting', 'running', 'answered', 'sending', 'done'];
const SIDE = {
  steered: 'joined another turn', unclear: 'its end was not seen: looked up', parked: 'cut after a change: waits for you', dead: 'given up', cancelled: 'stopped',
};

/** @param {Props.States} _ */
function States({ story: { state, answer, attempts } }) {
  const on = TRUNK.indexOf(state);
  const at = on >= 0 ? on : TRUNK.indexOf(answer ? 'answered' : attempts.length > 0 ? 'running' : 'received');
  return html`<ol class="states" aria-label="States of a message">${TRUNK.map((name, index) => html`
    <li key=${name} class=${name === state ? 'here' : index < at || (index === at && on < 0) ? 'passed' : ''} aria-current=${name === state ? 'step' : undefined}><span>${name}</span>
      ${SIDE[state] && index === at && html`<span class="branch ${state}" aria-current="step">${state}<small>${SIDE[state]}</small></span>`}</li>`)}</ol>`;
}

/** @param {Props.Attempt} _ */
function Attempt({ attempt, story }) {
  const { message_id, channel, conversation } = story;
  const mine = (one) => one.attempt === attempt.attempt;
  const took = attempt.ended_at ? `${span(Date.parse(attempt.ended_at) - Date.parse(attempt.started_at))}, ` : '';
  const code = (text) => text && html`<code>${line(text, 80)}</code>`;
  return html`<details class="attempt ${attempt.state}" open=${story.attempts.length < 4 || attempt === story.attempts.at(-1)}>
    <summary><strong>Attempt ${attempt.attempt}</strong> <${Badge} tone=${attempt.state === 'lost' ? 'failed' : ''}>${line(attempt.state, 20)}<//>
      <span class="dim">${took}${(attempt.input_tokens + attempt.output_tokens).toLocaleString()} tokens, ${short(attempt.sandbox, 30)}${attempt.touched && ', may have changed something'}</span></summary>
    ${attempt.failures.map((text) => html`<p class="reason">${full(text)}</p>`)}
    <${Steps} items=${story.events.filter(mine)} />
    ${story.requests.filter((request) => mine(request) && !isUndecided(request)).map((request) => html`<div class="said" key=${request.request_id}>
      <a href="#/requests/${request.request_id}">${short(request.headline, 200)}</a><${Settled} request=${{ ...request, message_id, channel, conversation }} /></div>`)}
    <details><summary>For programs</summary><${Facts} rows=${[['Client id', code(attempt.client_id)], ['Thread', code(attempt.thread_id)],
      ['Turn', code(attempt.turn_id)], ['Life of Codex', code(attempt.incarnation)]]} /></details></details>`;
}

/** @param {Api.StoryView} story */
function moments(story) {
  const known = new Set(story.attempts.map((attempt) => attempt.attempt));
  const all = [
    { at: story.received_at, tone: 'begin', draw: html`<strong>Came</strong> from ${short(story.sender, 60)} over ${short(story.channel, 60)}` },
    ...story.attempts.map((attempt) => ({ at: attempt.started_at, tone: attempt.state === 'lost' || attempt.failures.length > 0 ? 'failed' : 'turn', draw: html`<${Attempt} attempt=${attempt} story=${story} />` })),
    ...story.acts.map((act) => ({ at: act.at, tone: 'act', draw: html`<strong>${short(act.what, 40)}</strong> by ${short(act.by, 60)}
      <span class="dim"> ${short(act.detail, 200)}</span>` })),
    ...story.events.filter((one) => !known.has(one.attempt)).map((event) => ({ at: event.at, tone: 'note', draw: short(event.text, 300) })),
  ];
  if (story.answer) all.push({ at: story.answer.created_at, tone: 'good', draw: html`<strong>Answer on disk</strong> <span class="dim">${SOURCE[story.answer.source]}</span>` });
  return all.sort((a, b) => a.at.localeCompare(b.at));
}

const REPLY_TONES = { sent: 'good', dead: 'failed' };

/** @param {Api.StoryView['replies'][0]} reply */
const Reply = (reply) => html`<li key=${`reply ${reply.ordinal}`} class="moment ${REPLY_TONES[reply.state]}">
  <strong>${reply.kind === 'notice' ? 'Notice' : 'Reply'} ${reply.ordinal + 1}</strong> <${Badge} tone=${REPLY_TONES[reply.state] ?? 'waits'}>${line(reply.state, 20)}<//>
  <span class="dim"> ${counted(reply.tries, 'try', 'tries')}${reply.receipt && html`, receipt <code>${line(reply.receipt, 60)}</code>`}${reply.not_before && html`, sent again ${exactly(reply.not_before)}`}</span>
  ${reply.reason && html`<p class="reason">${full(reply.reason)}</p>`}${reply.notice && html`<p>${full(reply.notice)}</p>`}</li>`;

export function Why({ id, session }) {
  const { value: story, error, reload } = useRows(() => get(`messages/${id}`), [id], ({ data }) => data.message_id === id);
  if (!story) return html`<${Loading} error=${error} what="this message" again=${reload} />`;
  const { channel, conversation, state, why } = story;
  const other = (message) => html`<a href="#/messages/${message}">${message.slice(-8)}</a> `;
  /** @param {'cancel' | 'redrive' | 'drop'} verb */
  const act = (verb) => () => post(`messages/${id}/${verb}`).then((done) => { notify(done.detail); reload(); });
  return html`
    <${Head} title="Why" sub=${html`<code>${line(id, 60)}</code> in ${short(conversation, 60)}`}>
      <a class="button" href="#/messages/${id}/conversation">Conversation</a>
      ${!isOver(story) && !story.stop && state !== 'parked' && html`<${Act} tone="danger" act=${act('cancel')}>Stop<//>`}
      ${['dead', 'parked'].includes(state) && html`<${Act} tone="primary" act=${act('redrive')}>${state === 'parked' ? 'Go on' : 'Retry'}<//><${Act} act=${act('drop')}>Discard<//>`}<//>
    <section class="card answer-why" aria-live="polite"><p class="now-big">${mark(story.phase)} ${full(why.now)}</p>
      ${why.next && html`<p>Next: ${full(why.next)}</p>`}
      ${story.hold && html`<p class="reason">Until ${exactly(story.hold.until)}: ${full(story.hold.failure.reason)}</p>`}
      ${story.failure && html`<p class="reason"><${Badge} tone="failed">${short(story.failure.class, 20)}<//> ${full(story.failure.reason)}</p>`}
      <${Facts} rows=${[['Behind', story.behind && other(story.behind)], ['Joined the turn of', story.leader && other(story.leader)],
        ['Took along', story.followers.length > 0 && story.followers.map(other)], ['Stopped', story.stop && full(story.stop)],
        ['Suspect', story.suspect && 'Codex died once while it worked on this: suspects run one at a time'], ['Node', story.node && full(story.node)]]} /></section>
    <${States} story=${story} />
    ${story.requests.filter(isUndecided).map((request) => html`<${Question} key=${request.request_id} request=${{ ...request, message_id: id, channel, conversation }} session=${session} onDecided=${reload} />`)}
    <details class="past"><summary>What was said</summary><${LongText} text=${visible(story.text)} label="The message" /></details>
    <ol class="timeline" aria-label="What happened">${moments(story).map((moment, at) => html`<li key=${at} class="moment ${moment.tone}">
      ${exactly(moment.at)} ${moment.draw}</li>`)}${story.replies.map(Reply)}
      ${!isOver(story) && html`<li class="moment next"><strong>Next</strong> ${full(why.next)}</li>`}</ol>`;
}

// ---- Conversations: listed, searched, read; where one writes; tasks.

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
  return [...newer, ...older.filter((one) => !ids.has(one.conversation_id))].sort((a, b) => (a.active_at < b.active_at ? 1 : -1));
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
  if (nests && ITEM.test(line)) return listed(lines, at, depth);
  const end = until(lines, at + 1, (one) => !one.trim() || [FENCE, HEADING, ITEM, QUOTE].some((start) => start.test(one)));
  return [html`<p>${inline(lines.slice(at, end).join('\n'))}</p>`, end];
}

function until(lines, from, stops) {
  let end = from;
  while (end < lines.length && !stops(lines[end])) end += 1;
  return end;
}

/** @returns {[Child, number]} */
function listed(lines, at, depth) {
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
