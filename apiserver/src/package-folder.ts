/** The folder of the server's package, as a URL. Source, compiled code and bundle all lie one folder below it. */
export const packageFolder = new URL('../', import.meta.url)
