// @ts-check
/** Questions of Codex to the user and forms of MCP servers, read from what was asked; Codex's peer checks the answers. */

import { html } from '../lib/html.js';
import { Text } from './basics.js';

/** @typedef {{ label: string, help: string, value: unknown }} Option */
/** @typedef {{ id: string, title: string, options: Option[], typed: '' | 'text' | 'integer' | 'number' | 'boolean', required: boolean, preset: unknown, secret: boolean }} Field */

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
  /** @type {Record<string, unknown>} */
  const answers = {};
  for (const field of fields) {
    const value = filled[field.id] ?? field.preset;
    if (value === undefined || value === '') {
      if (field.required) return null;
    } else if (typeof value === 'number' && !Number.isFinite(value)) return null;
    else answers[field.id] = value;
  }
  return answers;
}

/** @param {{ fields: Field[], filled: Record<string, unknown>, onFill: (id: string, value: unknown) => void, name: string }} props */
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

/** @param {{ field: Field, value: unknown, onFill: (id: string, value: unknown) => void }} props */
function Input({ field, value, onFill }) {
  const label = field.title || field.id;
  if (field.typed === 'boolean') {
    return html`<label class="choice"><input type="checkbox" checked=${value === true}
      onChange=${(/** @type {any} */ event) => onFill(field.id, event.target.checked)} /><span>Yes</span></label>`;
  }
  const numeric = field.typed !== 'text';
  const chosen = field.options.some((option) => option.value === value);
  return html`<input type=${field.secret ? 'password' : 'text'} inputmode=${numeric ? 'decimal' : 'text'} autocomplete="off"
    aria-label=${label} placeholder=${field.options.length > 0 ? 'Another answer' : ''} value=${chosen ? '' : value ?? ''}
    onInput=${(/** @type {any} */ event) => onFill(field.id, read(event.target.value, field.typed))} />`;
}

/** @param {string} text @param {Field['typed']} type */
function read(text, type) {
  if (type !== 'integer' && type !== 'number') return text;
  if (text.trim() === '') return '';
  const number = Number(text);
  return type === 'integer' && !Number.isSafeInteger(number) ? NaN : number;
}
