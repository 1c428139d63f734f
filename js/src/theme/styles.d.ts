// A style sheet as the build gives it to who imports it: its text.
declare module "*.css" {
  const text: string;
  export default text;
}
