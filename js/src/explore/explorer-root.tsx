// What explores a run beyond its bars, each part as a tree of its own: the panels below the toolbar, and the filters beside the
// search. They are loaded when one of them is opened for the first time, since a run can be shown without them.

import { type LateRoot, mountLate } from "../elements/late-root";
import style from "../theme/explore-late.css";
import type { View } from "../view/view";
import { Filters } from "./filters";
import { Panels } from "./panels";

/** What narrows a search by kinds of spans and by how they ended. */
export const mountFilters = (place: HTMLElement, view: View): LateRoot => mountLate(place, style, (change) => <Filters view={view} change={change} />);

/** What a button of the toolbar opens below it. */
export const mountPanel = (place: HTMLElement, view: View): LateRoot => mountLate(place, style, (change) => <Panels view={view} change={change} />);
