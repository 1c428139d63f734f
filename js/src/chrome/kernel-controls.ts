// What only a view with a kernel has. A saved trace is shown without, so the renderer of saved traces doesn't carry it.

import { ReviewPanel } from "./review-panel";
import { Stop } from "./stop-button";

export const KERNEL_CONTROLS = { Stop, ReviewPanel };

export type KernelControls = typeof KERNEL_CONTROLS;
