/**
 * uPlot formats numbers in the language of the browser as soon as it is loaded, and fails with a language that is none, such as the
 * `en-US@posix` of a browser in a container.
 */
try {
  new Intl.NumberFormat(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en' })
}
