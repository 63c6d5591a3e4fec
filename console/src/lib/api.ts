// Requests to the server from its own page. The login is in a cookie that scripts cannot read; the CSRF token is
// kept only in this module.

import { parse, type Json } from "./json";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
    readonly code?: string,
  ) {
    super(message);
  }
}

let csrf = "";
let onLoggedOut = (): void => {};

export function whenLoggedOut(action: () => void): void {
  onLoggedOut = action;
}

export interface Request {
  method?: string;
  body?: BodyInit;
  type?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Sends a request; throws an error answer. */
export async function send(path: string, request: Request = {}): Promise<Response> {
  const headers = new Headers(request.headers);
  if (csrf) headers.set("Isomer-Csrf", csrf);
  if (request.type) headers.set("Content-Type", request.type);
  let answer: Response;
  try {
    answer = await fetch(path, {
      method: request.method ?? "GET",
      body: request.body ?? null,
      headers,
      signal: request.signal ?? null,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "Unavailable", "the server does not respond: is it still running?");
  }
  if (answer.ok) return answer;
  const failure = await errorOf(answer);
  if (answer.status === 401 && path !== "/v1/login" && path !== "/v1/setup") onLoggedOut();
  throw failure;
}

async function errorOf(answer: Response): Promise<ApiError> {
  try {
    const body = ((await answer.json()) as { error: { kind: string; message: string; code?: string } }).error;
    return new ApiError(answer.status, body.kind, body.message, body.code);
  } catch {
    return new ApiError(answer.status, "Internal", `the server answered ${answer.status}`);
  }
}

export async function get<T = Record<string, Json>>(path: string, signal?: AbortSignal): Promise<T> {
  const answer = await send(path, signal ? { signal } : {});
  return parse(await answer.text()) as T;
}

/** Sends JSON; returns the answer's JSON, or null if it is empty. */
export async function put<T = Record<string, Json>>(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<T> {
  const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
  const answer = await send(path, {
    method,
    ...(text === undefined ? {} : { body: text, type: "application/json" }),
    ...(headers ? { headers } : {}),
  });
  const received = await answer.text();
  return (received ? parse(received) : null) as T;
}

/** A path of the interface, its parts encoded. */
export function path(parts: TemplateStringsArray, ...values: (string | number | bigint)[]): string {
  return parts.reduce((text, part, at) => text + part + (at < values.length ? encodeURIComponent(String(values[at])) : ""), "");
}

export interface Me {
  user: string;
  admin: boolean;
  /** `error`: why a database cannot be opened; for administrators only. */
  databases: { database: string; role: Role; open: boolean; error?: string }[];
  version: string;
  csrf?: string;
}
/** Each role includes those before it. */
export type Role = "reader" | "editor" | "schema" | "replica" | "admin";

export async function me(): Promise<Me> {
  const me = (await get("/v1/me")) as unknown as Me;
  csrf = me.csrf ?? "";
  return me;
}

export async function logIn(user: string, password: string): Promise<void> {
  await put("POST", "/v1/login", { user, password, cookie: true });
}

export async function setUp(token: string, user: string, password: string): Promise<void> {
  await put("POST", "/v1/setup", { token, user, password, cookie: true });
}

export async function logOut(): Promise<void> {
  await put("POST", "/v1/logout");
  csrf = "";
}

let offered: Promise<Set<string>> | undefined;

/** Whether the server has a route, such as `GET /v1/databases/{db}/files/{path}`: pages hide what it does not offer. */
export async function offers(route: string): Promise<boolean> {
  offered ??= get("/v1/openapi.json").then((description) => {
    const routes = new Set<string>();
    for (const [path, methods] of Object.entries(description.paths as Record<string, Record<string, Json>>))
      for (const method of Object.keys(methods)) routes.add(`${method.toUpperCase()} ${path}`);
    return routes;
  });
  return (await offered).has(route);
}
