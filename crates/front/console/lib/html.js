// @ts-check
/** Preact and htm, with types. Nothing else imports `vendor/`. */

import * as preact from '../vendor/preact.mjs';
import * as hooks from '../vendor/hooks.mjs';
import htm from '../vendor/htm.mjs';

export const { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useErrorBoundary } = /** @type {Hooks} */ (/** @type {unknown} */ (hooks));

/** @type {(strings: TemplateStringsArray, ...values: Hole[]) => VNode} */
export const html = /** @type {any} */ (htm).bind(/** @type {any} */ (preact).h);

/** @type {(node: VNode, parent: Element) => void} */
export const render = /** @type {any} */ (preact).render;

/** For `onInput`: hands on what is typed. @param {(value: any) => void} set */
export const typed = (set) => (/** @type {any} */ event) => set(event.target.value);

/** For `onChange` of a box to tick. @param {(on: boolean) => void} set */
export const ticked = (set) => (/** @type {any} */ event) => set(event.target.checked);
