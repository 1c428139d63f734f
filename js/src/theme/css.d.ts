// Style sheets are imported as text (see build.mjs).
declare module "*.css" {
  const text: string;
  export default text;
}
