// What only a view with a kernel has. A saved trace is shown without, so the renderer of saved traces doesn't carry it.

import { ReviewPlace } from "./late-places";
import { Stop } from "./stop-button";

export const KERNEL_CONTROLS = { Stop, ReviewPlace };

export type KernelControls = typeof KERNEL_CONTROLS;
