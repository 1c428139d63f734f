// What reads trace files, apart from the views: few pages ever show one.

export { traceToSaved } from "../wire/trace-file";
