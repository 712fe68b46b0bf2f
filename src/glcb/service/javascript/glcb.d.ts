/** A feature value. A list of numbers is a vector, a list of texts are tags; missing values are null or undefined. */
export type Feature = string | number | boolean | null | undefined | Date | readonly number[] | readonly string[];

/** Feature values by name. */
export type Features = Readonly<Record<string, Feature>>;

/** Feature values by name or by position. */
export type Context = Features | readonly Feature[];

/** Options of a client. */
export interface ClientOptions {
  /** The API key. Everyone can read the key in a web page: use one with the role `publish` there. */
  apiKey?: string;
  /** Milliseconds to wait for a response: 3000. */
  timeout?: number;
  /** Milliseconds for which a failed request is repeated: 10000. 0 for a single attempt. */
  retryFor?: number;
}

/** Options of a decision or a ranking. */
export interface ChoiceOptions {
  /** The candidates of this request with their features; only if the arms of the experiment have features. */
  arms?: Readonly<Record<string, Features | null>>;
  /** The arms to choose from; all by default. */
  eligible?: readonly string[];
  /** What the existing system would choose; for a ranking, the arms of its slots. */
  control?: string | readonly string[];
  /** Who or what the decision is for, such as a user: all decisions for a unit are in the same group. */
  unit?: string;
  /** The id of the decision; not with a publishable key. By default, the service chooses one. */
  id?: string;
  /** Makes a repeated request return the first decision; random by default. In web pages, it must be random. */
  idempotencyKey?: string;
  /** Aborts the request. */
  signal?: AbortSignal;
}

/** Options of a reward. */
export interface RewardOptions {
  /** The slot of a ranking, from 0. */
  slot?: number;
  /** Number of slots of a ranking that were seen. */
  examined?: number;
  /** Further metrics of the decision, by name. */
  metrics?: Readonly<Record<string, number>>;
  /** Makes a repeated reward count once; random by default. */
  idempotencyKey?: string;
  /** Aborts the request. */
  signal?: AbortSignal;
}

/** A decision. A publishable key sees the id and the arm alone. */
export interface Decision {
  /** The id to report the reward for. */
  id: string;
  /** The chosen arm. */
  arm: string;
  /** The probability with which this arm was chosen. */
  propensity?: number;
  /** The probability of each arm, or of the most likely candidates. */
  probabilities?: Record<string, number>;
  /** Whether the decision belongs to the holdout, which is served random arms or the control. */
  holdout?: boolean;
  /** Number of candidates, if arms have features. */
  candidates?: number;
}

/** Several different arms in order. A publishable key sees the id and the arms alone. */
export interface Ranking {
  /** The id to report rewards for. */
  id: string;
  /** The arm of each slot, from the top. */
  arms: string[];
  /** The probability with which the arm of each slot was chosen, given the arms above it. */
  propensities?: number[];
  /** Whether the ranking belongs to the holdout, which is served random arms or the control. */
  holdout?: boolean;
  /** Number of candidates. */
  candidates?: number;
}

/** A request that failed. */
export class GlcbError extends Error {
  constructor(code: string, message: string, details?: { status?: number; cause?: unknown });
  /**
   * The error code of the service, such as `unknown_arm`, or one of the client: `no_response`, `timeout`,
   * `unexpected_response`.
   */
  readonly code: string;
  /** The HTTP status; 0 if there was no response. */
  readonly status: number;
}

/** A glcb service. */
export class Client {
  /** @param url Such as `https://glcb.example.com`. */
  constructor(url: string | URL, options?: ClientOptions);
  /** Refer to an existing experiment, without a request. */
  experiment(name: string): Experiment;
}

/** An experiment of a service. */
export interface Experiment {
  readonly name: string;
  /** Make a decision. */
  decide(context: Context, options?: ChoiceOptions): Promise<Decision>;
  /** Choose `k` different arms, in order. */
  rank(context: Context, k: number, options?: ChoiceOptions): Promise<Ranking>;
  /**
   * Report the reward of a decision or a ranking. The request is completed even if the page is closed.
   * Returns false if a reward with the same idempotency key was already accepted.
   */
  reward(id: string, value: number | boolean, options?: RewardOptions): Promise<boolean>;
}
