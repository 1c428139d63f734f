// Before each file of tests on a page: those of a worker share it, and nothing is there of what others did on it.

import { isFormatted } from "../elements/text-block";

localStorage.clear();
sessionStorage.clear();
document.body.replaceChildren();
isFormatted.value = true;
Reflect.deleteProperty(globalThis, Symbol.for("ensemble-timeline.left-views"));
