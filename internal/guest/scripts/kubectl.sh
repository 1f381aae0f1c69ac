# Hands one request to the API server by kubectl, as the administrator of this control-plane node. Standard input has seven lines, then the body.
LC_ALL=C
export LC_ALL
echo "trueup-begin kubectl"
IFS= read -r method
IFS= read -r path      # with its query: what get, create and replace need
IFS= read -r resource  # from here on: what patch needs, which takes no path
IFS= read -r namespace
IFS= read -r name
IFS= read -r kind
IFS= read -r manager

# What is not plainly a path, or a name, is none of ours.
case $method$path in
GET/* | POST/* | PUT/* | PATCH/*) ;;
DELETE/api/v1/namespaces/*/pods/*) ;; # nothing else is ever deleted
*) exit 64 ;;
esac
case "$path" in *[!A-Za-z0-9/._~%?\&=:,+-]*) exit 64 ;; esac
for word in "$resource" "$namespace" "$name" "$kind" "$manager"; do
	case $word in -* | *[!a-z0-9.-]*) exit 64 ;; esac
done

# CKS unpacks kubectl into /opt/bin; kubeadm writes the administrator's kubeconfig.
PATH=$PATH:/opt/bin
KUBECONFIG=/etc/kubernetes/admin.conf
export PATH KUBECONFIG
# Without the file kubectl would ask whoever listens on localhost:8080.
[ -r "$KUBECONFIG" ] || { echo "there is no $KUBECONFIG here: this is no control-plane node of kubeadm" >&2; exit 66; }
case $method in
GET) exec kubectl get --raw "$path" ;;
POST) exec kubectl create --raw "$path" -f - ;;
PUT) exec kubectl replace --raw "$path" -f - ;;
DELETE) exec kubectl delete --raw "$path" -f - ;;
PATCH) exec kubectl patch "$resource" "$name" --namespace "${namespace:-default}" --type "$kind" --field-manager "$manager" --patch-file /dev/stdin -o json --show-managed-fields ;;
esac
