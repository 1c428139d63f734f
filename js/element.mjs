// What JSX becomes in the bundles: a call with the children as arguments is shorter than one with an object that has them.
export { createElement as h, Fragment } from "preact";
