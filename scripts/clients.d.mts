/** Returns the path of the built program `test/clients/go`. @throws Error that says what to install, if that fails */
export function findGoClients(): Promise<string>
/** Returns the path of the built program `test/clients/e2e`, which takes minutes. @throws Error as above */
export function findKubernetesSpecs(): Promise<string>
/** Returns the path of the built program `test/clients/definitions`. @throws Error as above */
export function findDefinitionChecker(): Promise<string>
/** Returns the path of the built program `test/clients/cert-manager`, which takes minutes. @throws Error as above */
export function findCertManager(): Promise<string>
/** Returns the path of the built program `test/clients/operator`. @throws Error as above */
export function findOperator(): Promise<string>
/** Returns the path of the built tests of Gateway API's validation, which use KUBECONFIG. @throws Error as above */
export function findGatewayTests(): Promise<string>
/** Returns the path of the installed program `test/clients/python`. @throws Error as above */
export function findPythonClients(): Promise<string>
/** Returns the path of the built program `test/clients/rust`, which takes minutes. @throws Error as above */
export function findRustClients(): Promise<string>
