// Pictures and PDFs in texts (W167). A text has a mark for each; the kernel says what it is, and sends a small WebP picture
// that it has made. Only such a one becomes an image, beside what a model says (W6), and nothing is fetched.

import type { VNode } from "preact";

const MARK = /\[(picture|PDF of \d{1,6} pages?) sha256:([0-9a-f]{64})\]/g;
const SHOWN_DIGITS = 8;
const THUMBNAIL = /^[A-Za-z0-9+/]{8,20000}={0,2}$/;

export interface Picture {
  readonly digest: string;
  /** What it is, in words. */
  readonly caption: string;
  /** WebP as base64; null where there is none. */
  readonly thumbnail: string | null;
}

/** One of those that came with texts, by digest; undefined where it is none. */
export function pictureOf(known: unknown, digest: string): Picture | undefined {
  const found: unknown = Object(known)[digest];
  if (!Array.isArray(found) || typeof found[0] !== "string") return undefined;
  return { digest, caption: found[0], thumbnail: typeof found[1] === "string" && THUMBNAIL.test(found[1]) ? found[1] : null };
}

/** Those whose marks stand in a text, once each. */
export function findPictures(text: string, known: unknown): Picture[] {
  const digests = new Set([...text.matchAll(MARK)].map((mark) => mark[2] as string));
  return [...digests].flatMap((digest) => pictureOf(known, digest) ?? []);
}

/** A text to read: the first digits of a digest are enough to tell which picture is meant. */
export const shortenMarks = (text: string): string => text.replace(MARK, (_, kind: string, digest: string) => `[${kind} ${digest.slice(0, SHOWN_DIGITS)}]`);

export const Thumbnail = ({ picture: { caption, thumbnail } }: { picture: Picture }): VNode | null =>
  thumbnail === null ? null : <img src={`data:image/webp;base64,${thumbnail}`} alt={caption} />;

/** Under a text: what its marks stand for. */
export const Pictures = ({ pictures }: { pictures: readonly Picture[] }): VNode | null => pictures.length === 0 ? null : (
  <div class="et-pictures">
    {pictures.map((picture) => <figure key={picture.digest}><Thumbnail picture={picture} /><figcaption>{`${picture.caption} · ${picture.digest.slice(0, SHOWN_DIGITS)}`}</figcaption></figure>)}
  </div>
);
