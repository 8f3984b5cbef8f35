// @ts-check
/** Tasks: started here with a directory, a model and a sandbox; listed; watched. */

import { get, post } from '../lib/api.js';
import { html, useState } from '../lib/html.js';
import { notify, useKeys } from '../lib/keys.js';
import { useRows } from '../lib/live.js';
import { When, line } from '../lib/text.js';
import { Act, Badge, Dialog, Empty, Facts, Head, Line, Loading, Phase, Problem, Rows, Text } from '../parts/basics.js';
import { Write, steer } from '../parts/composer.js';
import { Message } from '../parts/message.js';
import { mayAccept } from '../parts/question.js';

const PAGE = 100;

/** @param {Props.Start} _ */
function Start({ onClose }) {
  const [terms, setTerms] = useState({ cwd: '', model: '', sandbox: 'read-only', approval_policy: 'on-request' });
  const set = (/** @type {keyof typeof terms} */ name) => (/** @type {any} */ event) => setTerms({ ...terms, [name]: event.target.value });
  const start = async (/** @type {string} */ prompt, /** @type {unknown} */ _, /** @type {string} */ key) => {
    const given = Object.fromEntries(Object.entries(terms).filter(([, value]) => value.trim()));
    const { task, duplicate } = await post('tasks', { prompt, ...given }, { 'idempotency-key': key });
    notify(duplicate ? 'It was started before.' : `${task.task_id} is started.`);
    onClose();
    location.hash = `#/tasks/${encodeURIComponent(task.task_id)}`;
  };
  return html`<${Dialog} title="Start a task" wide onClose=${onClose}>
    <label class="field">Directory
      <input value=${terms.cwd} placeholder="/home/you/project" autocomplete="off" spellcheck=${false} onInput=${set('cwd')} /></label>
    <div class="fields">
      <label class="field">Sandbox<select value=${terms.sandbox} onChange=${set('sandbox')}>
        <option value="read-only">read-only: it only reads</option>
        <option value="workspace-write">workspace-write: it may write in the directory</option></select></label>
      <label class="field">Asks<select value=${terms.approval_policy} onChange=${set('approval_policy')}>
        <option value="on-request">on-request: before it leaves the sandbox</option>
        <option value="untrusted">untrusted: before every command</option></select></label>
      <label class="field">Model<input value=${terms.model} placeholder="as configured" autocomplete="off" onInput=${set('model')} /></label>
    </div>
    <${Write} label="What is to be done?" verb="Start" rows=${6} send=${start} hint="A task of its own with an id; it outlives the daemon." />
  <//>`;
}

/** @param {Props.TasksRow} _ */
const Row = ({ task }) => html`<a class="row task" href="#/tasks/${encodeURIComponent(task.task_id)}">
  <span class="where"><${Phase} phase=${task.phase} quiet /></span>
  <span class="what"><strong><${Line} text=${task.prompt_summary} length=${160} /></strong>
    <span class="dim"><code>${line(task.task_id, 40)}</code> <${Line} text=${task.last_progress_summary ?? task.final_summary ?? task.error_summary} length=${160} /></span></span>
  <span class="side">${(task.pending_requests?.length ?? 0) > 0 && html`<${Badge} tone="asks">asks<//>`}
    ${task.sandbox && html`<${Badge}>${line(task.sandbox, 30)}<//>`}<${When} at=${task.updated_at ?? task.created_at} /></span>
</a>`;

function Tasks() {
  const { value, error, reload } = useRows(
    () => /** @type {Promise<Api.TaskPageView>} */ (get('tasks', { limit: PAGE })), [],
    ({ name, data }) => name === 'request' || (name === 'state' && data.channel === 'task'),
  );
  const [older, setOlder] = useState(/** @type {{ tasks: Api.TaskShape[], next?: string | null }} */ ({ tasks: [] }));
  const [starting, setStarting] = useState(false);
  useKeys('Tasks', [{ key: 'n', what: 'start a task', run: () => setStarting(true) }]);
  const next = older.next === undefined ? value?.next : older.next;
  const more = async () => {
    const page = /** @type {Api.TaskPageView} */ (await get('tasks', { limit: PAGE, before: next }));
    setOlder({ tasks: [...older.tasks, ...page.tasks], next: page.next ?? null });
  };
  const newest = new Set(value?.tasks.map((task) => task.task_id));
  const tasks = [...(value?.tasks ?? []), ...older.tasks.filter((task) => !newest.has(task.task_id))];
  return html`
    <${Head} title="Tasks"><button class="primary" onClick=${() => setStarting(true)}>Start a task</button><//>
    ${starting && html`<${Start} onClose=${() => setStarting(false)} />`}
    ${error && html`<${Problem} error=${error} what="tasks" again=${reload} />`}
    ${!value && !error && html`<${Loading} />`}
    ${value && tasks.length === 0 && html`<${Empty} title="No tasks yet"><p>A task works in a directory of yours. Start one here, or there:</p>
      <pre class="code">codex-bridge start --sandbox workspace-write 'Make the slow test fast'</pre><//>`}
    ${tasks.length > 0 && html`<${Rows} rows=${tasks} height=${57} label="Tasks" id=${(task) => task.task_id}
      draw=${(task) => html`<${Row} task=${task} />`} />`}
    ${next && html`<${Act} tone="older" act=${more}>Older tasks<//>`}`;
}

/** @param {Props.Task} _ */
function Task({ id, session }) {
  const path = `tasks/${encodeURIComponent(id)}`;
  const { value, error, reload } = useRows(async () => {
    const { task } = /** @type {{ task: Api.TaskShape }} */ (await get(path));
    const messages = await Promise.all(task.message_ids.slice(-20).map((message) => /** @type {Promise<Api.MessageView>} */ (get(`messages/${message}`))));
    return { task, messages };
  }, [id], ({ name, data }) => (name === 'state' && data.conversation === id) || (name === 'request' && (data.task_id ?? id) === id));
  useKeys('Task', [{ key: 'u', what: 'back to all tasks', run: () => { location.hash = '#/tasks'; } }]);
  if (!value) return error ? html`<${Problem} error=${error} what="this task" again=${reload} />` : html`<${Loading} />`;
  const { task, messages } = value;
  const over = ['done', 'failed', 'stopped'].includes(task.phase ?? '');
  const stop = () => post(`${path}/interrupt`).then((reply) => { notify(reply.message ?? reply.interrupt ?? 'It is asked to stop.'); reload(); });
  return html`
    <${Head} title=${html`<${Line} text=${task.prompt_summary} length=${120} />`} sub=${html`<${Phase} phase=${task.phase} /> <code>${line(task.task_id, 60)}</code>`}>
      ${!over && html`<${Act} tone="danger" act=${stop}>Stop<//>`}<//>
    ${error && html`<${Problem} error=${error} what="news of it" again=${reload} />`}
    <${Facts} rows=${[
      ['Directory', task.cwd && html`<code><${Text} text=${task.cwd} /></code>`],
      ['Sandbox', task.sandbox && html`<${Line} text=${task.sandbox} />`],
      ['Asks', task.approval_policy && html`<${Line} text=${task.approval_policy} />`],
      ['Model', task.model && html`<${Line} text=${task.model} />`],
      ['Started by', task.starter && html`<${Line} text=${task.starter} />`],
      ['Tells', task.notify_target && html`<${Line} text=${task.notify_target} /> ${line(task.notification_status, 60)}`],
      ['Failed', task.error_summary && html`<${Text} text=${task.error_summary} />`]]} />
    <div class="messages" role="log" aria-label="Messages">${messages.map((message) => html`
      <${Message} key=${message.message_id} message=${message} mayAccept=${mayAccept(session)} reload=${reload} />`)}</div>
    <div class="go-on"><${Write} label="Tell the task more" verb=${over ? 'Go on' : 'Steer'} send=${(text) => steer('tasks', id, text).then(reload)}
      hint=${over ? 'A new turn of this task begins with it.' : 'Codex is told while it works, if its turn still takes it; else its next turn begins with it.'} /></div>`;
}

/** @param {Route} _ */
export const Screen = ({ id, session }) => (id ? html`<${Task} id=${id} session=${session} />` : html`<${Tasks} />`);
