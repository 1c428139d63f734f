// The signs that only parts have which are loaded late, beside those of the others.

import { PATHS, Sign } from "./icon";

const ALL = {
  ...PATHS,
  left: "m10 4-4 4 4 4",
  fit: "M6 3H3v3M10 3h3v3M6 13H3v-3M10 13h3v-3",
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  arrows: "M3 3v4.5c0 2 1 3 3 3h7M10.5 8 13 10.5 10.5 13M1.5 3h3",
  critical: "M2 3.8h5M6 8h4.5M9.5 12.2H14",
  copy: "M6 6V3.5A.5.5 0 0 1 6.5 3h6a.5.5 0 0 1 .5.5v6a.5.5 0 0 1-.5.5H10M3.5 6h6a.5.5 0 0 1 .5.5v6a.5.5 0 0 1-.5.5h-6a.5.5 0 0 1-.5-.5v-6a.5.5 0 0 1 .5-.5",
} as const;

export type LateIconName = keyof typeof ALL;

export const LateIcon = ({ name, size }: { name: LateIconName; size?: number }) => <Sign name={name} path={ALL[name]} size={size} />;
