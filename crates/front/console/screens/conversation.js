// @ts-check
/** One conversation: what was said, what Codex does now, and where one goes on. */

import { get } from '../lib/api.js';
import { html, useEffect, useRef, useState } from '../lib/html.js';
import { notify, useKeys } from '../lib/keys.js';
import { asApiError, useRows } from '../lib/live.js';
import { Badge, Facts, Head, Line, Loading, Problem, Text } from '../parts/basics.js';
import { Write, sendMessage, steer } from '../parts/composer.js';
import { Message, isOver } from '../parts/message.js';
import { mayAccept } from '../parts/question.js';

const PAGE = 30;

/** @param {Props.GoOn} _ */
function GoOn({ story, reload }) {
  const running = story.messages.find((message) => ['starting', 'running'].includes(message.state));
  const waiting = story.messages.some((message) => !isOver(message));
  const mine = story.channel === 'local' && !story.key.startsWith('@');
  const [asMessage, setAsMessage] = useState(false);
  if (story.channel === 'task') {
    return html`<${Write} label="Tell the task more" verb=${running ? 'Steer' : 'Go on'}
      hint=${running ? 'Codex is told while it works, if its turn still takes it; else its next turn begins with it.' : 'A new turn of this task begins with it.'}
      send=${(text) => steer('tasks', story.key, text).then(reload)} />`;
  }
  if (running && (!asMessage || !mine)) {
    return html`<${Write} label="Tell Codex more" verb="Steer"
      hint=${html`Codex is told while it works, if its turn still takes it; else its next turn begins with it.
        ${mine && html` <button class="link" onClick=${() => setAsMessage(true)}>Send a message of its own instead</button>`}`}
      send=${(text) => steer('messages', running.message_id, text).then(reload)} />`;
  }
  if (!mine) return html`<p class="dim go-on">Somebody else’s conversation: you can read it, and steer Codex while it works.</p>`;
  return html`<${Write} label=${`Message to ${story.key}`} verb="Send" withFiles
    hint=${waiting ? html`It waits behind what is there, and joins a running turn that takes it.
      ${running && html` <button class="link" onClick=${() => setAsMessage(false)}>Steer instead</button>`}` : 'Codex begins as soon as it can.'}
    send=${async (text, files, key) => {
      const sent = await sendMessage(story.key, text, files, key);
      notify(sent.duplicate ? 'It was sent before.' : 'It is on disk.');
      reload();
    }} />`;
}

/** Older pages, before what the screen reads again and again. @param {string} id @param {Api.ConversationStory | null} story */
function useOlder(id, story) {
  const [older, setOlder] = useState(/** @type {{ messages: Api.MessageView[], next: string | null | undefined }} */ ({ messages: [], next: undefined }));
  useEffect(() => setOlder({ messages: [], next: undefined }), [id]);
  const next = older.next === undefined ? story?.next : older.next;
  const more = async () => {
    const page = await get(`conversations/${encodeURIComponent(id)}`, { limit: PAGE, before: next }).catch((error) => notify(asApiError(error).message, 'failed'));
    if (page) setOlder({ messages: [...older.messages, ...page.messages], next: page.next ?? null });
  };
  const newest = new Set(story?.messages.map((message) => message.message_id));
  return { older: older.messages.filter((message) => !newest.has(message.message_id)), next, more };
}

/** @param {Props.Conversation} _ */
function Conversation({ id, session }) {
  const { value: story, error, reload } = useRows(
    () => /** @type {Promise<Api.ConversationStory>} */ (get(`conversations/${encodeURIComponent(id)}`, { limit: PAGE })), [id],
    ({ name, data }) => (name === 'state' ? data.conversation === known.current.key && data.channel === known.current.channel
      : name === 'request' && known.current.messages.has(data.message_id)),
  );
  const known = useRef({ key: '', channel: '', messages: new Set() });
  const { older, next, more } = useOlder(id, story);
  const bottom = useRef(/** @type {HTMLElement | null} */ (null));
  const newest = story?.messages[0]?.message_id;
  useEffect(() => {
    if (story) known.current = { key: story.key, channel: story.channel, messages: new Set(story.messages.map((message) => message.message_id)) };
  }, [story]);
  // A new message is scrolled to; a changed one leaves the reader where they are.
  useEffect(() => bottom.current?.scrollIntoView({ block: 'end' }), [newest]);
  useKeys('Conversation', [
    { key: 'r', what: 'write', run: () => /** @type {HTMLElement | null} */ (document.querySelector('.write textarea'))?.focus() },
    { key: 'u', what: 'back to all conversations', run: () => { location.hash = '#/conversations'; } },
  ]);

  if (!story) return error ? html`<${Problem} error=${error} what="this conversation" again=${reload} />` : html`<${Loading} />`;
  const messages = [...story.messages, ...older].reverse();
  return html`
    <${Head} title=${html`<${Line} text=${story.key} length=${80} />`}
      sub=${html`<${Badge}><${Text} text=${story.channel} /><//> works in <code><${Text} text=${story.workdir} /></code>`}>
      <details class="more"><summary>Details</summary><${Facts} rows=${[
        ['Conversation', html`<code>${story.conversation_id}</code>`],
        ['Codex thread', story.thread_id && html`<code><${Text} text=${story.thread_id} /></code>`],
        ['Node', story.node && html`<${Text} text=${story.node} />`],
        ['In a terminal', html`<code>codex-bridge log <${Text} text=${story.key} /></code>`]]} /></details>
    <//>
    ${error && html`<${Problem} error=${error} what="news of it" again=${reload} />`}
    ${next && html`<button class="older" onClick=${more}>Older messages</button>`}
    <div class="messages" role="log" aria-label="Messages">${messages.map((message) => html`
      <${Message} key=${message.message_id} message=${message} mayAccept=${mayAccept(session)} reload=${reload} />`)}</div>
    <div class="go-on"><${GoOn} story=${story} reload=${reload} /></div><i ref=${bottom}></i>`;
}

/** Leads from a message to its conversation. @param {Props.ToConversation} _ */
function ToConversation({ id }) {
  const [error, setError] = useState(/** @type {Failed | null} */ (null));
  useEffect(() => {
    const find = async () => {
      const message = await get(`messages/${encodeURIComponent(id)}`);
      // A message names its conversation by key: the list knows the id.
      const page = await get('conversations', { limit: 500 });
      const found = page.conversations.find((/** @type {any} */ one) => one.key === message.conversation && one.channel === message.channel);
      location.replace(found ? `#/conversations/${encodeURIComponent(found.conversation_id)}` : `#/messages/${encodeURIComponent(id)}`);
    };
    find().catch((failed) => setError(asApiError(failed)));
  }, [id]);
  return error ? html`<${Problem} error=${error} what="this message" />` : html`<${Loading} />`;
}

/** @param {Route} _ */
export const Screen = ({ id, sub, session }) => (sub ? html`<${ToConversation} id=${id} />` : html`<${Conversation} id=${id} session=${session} />`);
