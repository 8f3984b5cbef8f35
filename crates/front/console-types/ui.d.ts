// What the console uses of Preact and htm, and types that several of its modules share.

export type VNode = { type: unknown; props: unknown; key: unknown };
export type Child = VNode | string | number | bigint | boolean | null | undefined | Child[];
export type Props<P = {}> = P & { children?: Child; key?: string | number };
export type Ref<T> = { current: T };

export interface Hooks {
  useState<S>(initial: S | (() => S)): [S, (next: S | ((previous: S) => S)) => void];
  useEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
  useLayoutEffect(effect: () => void | (() => void), inputs?: readonly unknown[]): void;
  useRef<T>(initial: T): Ref<T>;
  useMemo<T>(factory: () => T, inputs: readonly unknown[]): T;
  useCallback<F extends Function>(callback: F, inputs: readonly unknown[]): F;
  useId(): string;
  useErrorBoundary(callback?: (error: unknown) => void): [unknown, () => void];
}

/** One event of a stream. */
export type StreamEvent = { name: string; id: string | null; data: any };

/** A route of the page: `#/messages/ID?q=…` is `['messages', 'ID']`. */
export type Route = { parts: string[]; query: URLSearchParams };

/** Who the page is signed in as. */
export type Session = { half?: string; name: string; scopes: string[]; expires_at?: string };
