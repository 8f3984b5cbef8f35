// @ts-check
/** Preact and htm, with types. Nothing else imports `vendor/`. */

import * as preact from '../vendor/preact.mjs';
import * as hooks from '../vendor/hooks.mjs';
import htm from '../vendor/htm.mjs';

/** @typedef {import('../../console-types/ui').Hooks} Hooks */
/** @typedef {import('../../console-types/ui').VNode} VNode */
/** @typedef {import('../../console-types/ui').Child} Child */

const typed = /** @type {Hooks} */ (/** @type {unknown} */ (hooks));

export const {
  useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useId, useErrorBoundary,
} = typed;

/** @type {(strings: TemplateStringsArray, ...values: unknown[]) => VNode} */
export const html = /** @type {any} */ (htm).bind(/** @type {any} */ (preact).h);

/** @type {(node: VNode, parent: Element) => void} */
export const render = /** @type {any} */ (preact).render;

/** @type {unknown} */
export const Fragment = /** @type {any} */ (preact).Fragment;
