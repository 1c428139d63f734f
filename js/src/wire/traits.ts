// The traits of any kind of span, also of one that a later version of the kernel made up: it is shown plainly, under its own
// name. Rejected: leaving such rows out, because then the view would lie about where the time went.

import { KIND_TRAITS, type KindTraits, type KnownKind, UNKNOWN } from "./kinds";

/** A known kind, which editors complete, or any other. */
export type Kind = KnownKind | (string & {});

// Own names only: `constructor` is no kind.
const isKnown = (kind: Kind): kind is KnownKind => Object.hasOwn(KIND_TRAITS, kind);

export const traitsOf = (kind: Kind): KindTraits => (isKnown(kind) ? KIND_TRAITS[kind] : UNKNOWN);

/** What a table says of a kind; undefined where it says nothing of it. */
export const entryOf = <T>(table: Partial<Record<KnownKind, T>>, kind: Kind): T | undefined =>
  isKnown(kind) ? table[kind] : undefined;
