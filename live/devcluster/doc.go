// Package devcluster runs a Kubernetes cluster in this one process: etcd,
// kube-apiserver, the few controllers that a scheduler needs around it (of Jobs, Deployments and claims), and
// KWOK, which plays the nodes.
//
//	err := devcluster.Run(ctx, devcluster.Options{Dir: dir, Scenario: "hetero"}, func(c *devcluster.Cluster) {
//		fmt.Println(c.Kubeconfig)
//	})
//
// Everything listens on the loopback interface only and trusts one certificate
// authority that is made on the spot. Nothing is downloaded, no container runs.
// Feature gates and loggers of Kubernetes are global to a process, so a process
// runs one cluster in its life. Package devcluster leaves scheduling to others:
// pods wait until someone binds them.
package devcluster
