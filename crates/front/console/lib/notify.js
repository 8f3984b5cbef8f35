// @ts-check
export const Notify = () => null;
