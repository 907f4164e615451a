/**
 * Loads ws, when the first WebSocket is opened or accepted. With the modules of Node that it needs, it would take an
 * eighth of the server's start. The server gets it from here too, so that a process loads one copy.
 */
export function loadWebSockets(): Promise<typeof import('ws')> {
  return import('ws')
}
